"""What scoring derives: per workspace a set of scores, one row per subject; and what is stale."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

# Which numbers a set has. A set with fewer is built anew once this release works on its product.
# 1: an account's users are those who are in it, with or without an event.
FORMULA_VERSION = 1


class ScoreSet(models.Model):
    """All scores of a workspace under one definition of what counts.

    An edited workspace gets a new set. It is built in the background, complete with the benchmarks
    of the past, and then becomes the workspace's ``scores`` in one step; readers see the old set
    with its old definition until then. The old one is kept a little longer for whoever is reading
    it, and deleted in pieces.

    ``scored_day`` is the UTC day whose windows the rows are of. The benchmarks are the 90th
    percentiles of the raw scores above zero: now, as it stood a day ago, and one lookback ago; None
    where nobody scored. The quantiles are ``QUANTILES`` equally spaced ones of the same raw scores,
    from low to high, empty where nobody scored. ``scored_event_name_count`` is the number of event
    names that the definition scores. All of these are taken together; ``benchmark_seconds`` is how
    long that took, and they are stale when scores changed since. The benchmarks of past days are
    taken again from ``past_benchmarks_stale_from`` on; ``past_benchmarks_seconds`` is how long that
    took the last time, at ``past_benchmarks_at``.
    """

    class State(models.TextChoices):
        BUILDING = "building"
        CURRENT = "current"
        RETIRED = "retired"

    class Phase(models.TextChoices):
        USERS = "users"
        ACCOUNTS = "accounts"
        BENCHMARKS = "benchmarks"

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_constraint=False)
    workspace = models.ForeignKey(
        "engagement.Workspace", on_delete=models.CASCADE, related_name="score_sets"
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.BUILDING)

    lookback_days = models.PositiveSmallIntegerField()
    default_weight = models.PositiveSmallIntegerField()
    audience = models.JSONField(default=dict)
    # 0 where an older release made the set.
    formula = models.PositiveSmallIntegerField(default=FORMULA_VERSION, db_default=0)

    # How far building has come: the phase, the last subject scored in it, and how many of how many.
    phase = models.CharField(max_length=10, choices=Phase.choices, default=Phase.USERS)
    built_until = models.BigIntegerField(default=0)
    built = models.BigIntegerField(default=0)
    to_build = models.BigIntegerField(null=True)

    scored_day = models.DateField(null=True)
    user_benchmark = models.FloatField(null=True)
    user_benchmark_yesterday = models.FloatField(null=True)
    user_benchmark_last_period = models.FloatField(null=True)
    account_benchmark = models.FloatField(null=True)
    account_benchmark_yesterday = models.FloatField(null=True)
    account_benchmark_last_period = models.FloatField(null=True)
    user_quantiles = ArrayField(models.BigIntegerField(), default=list)
    account_quantiles = ArrayField(models.BigIntegerField(), default=list)
    scored_event_name_count = models.IntegerField(db_column="scored_names", default=0)
    benchmarks_at = models.DateTimeField(null=True)
    benchmarks_stale = models.BooleanField(default=True)
    benchmark_seconds = models.FloatField(default=0.0)
    # The first day whose benchmark counts that came later have changed; None where none has.
    past_benchmarks_stale_from = models.DateField(db_column="past_stale_from", null=True)
    past_benchmarks_at = models.DateTimeField(db_column="past_at", null=True)
    past_benchmarks_seconds = models.FloatField(
        db_column="past_seconds", default=0.0, db_default=0.0
    )
    # Scores or segments changed since the set's tally was taken.
    cached_counts_stale = models.BooleanField(
        db_column="tally_stale", default=True, db_default=True
    )

    requested_at = models.DateTimeField(db_default=Now())
    published_at = models.DateTimeField(null=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["building", "current", "retired"]),
                name="score_set_state_known",
            ),
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(state="building"), name="one_building_score_set"
            ),
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(state="current"), name="one_current_score_set"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} scores of workspace {self.workspace_id}"


class ScoredEvent(models.Model):
    """What one event name weighs in a set of scores, as the workspace had it when it was asked
    for. An event that weighs 0 is not scored."""

    pk = models.CompositePrimaryKey("score_set_id", "event_name_id")
    score_set = models.ForeignKey(
        ScoreSet, on_delete=models.CASCADE, related_name="weights", db_index=False
    )
    event_name = models.ForeignKey(
        "engagement.EventName", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    weight = models.PositiveSmallIntegerField()

    def __str__(self) -> str:
        return f"{self.event_name_id}: {self.weight}"


class DailyBenchmark(models.Model):
    """The benchmarks of a set of scores as they stood at the end of a UTC day, or stand today.

    A day without a row has those of the day before it.
    """

    pk = models.CompositePrimaryKey("score_set_id", "day")
    score_set = models.ForeignKey(
        ScoreSet, on_delete=models.CASCADE, related_name="daily_benchmarks", db_index=False
    )
    day = models.DateField()
    users = models.FloatField(null=True)
    accounts = models.FloatField(null=True)

    def __str__(self) -> str:
        return f"{self.day}: {self.users} / {self.accounts}"


class CachedCounts(models.Model):
    """What was counted of a set of scores: its subjects, those with a raw score above zero, and the
    ``members`` of its workspace's segments, by the segment and the version of its rule.

    ``rising`` and ``falling`` are the ids of the accounts whose scores moved most, the largest
    change first. ``seconds`` is how long counting took.
    """

    score_set = models.OneToOneField(
        ScoreSet, on_delete=models.CASCADE, primary_key=True, related_name="cached_counts"
    )
    users = models.BigIntegerField()
    active_users = models.BigIntegerField()
    accounts = models.BigIntegerField()
    active_accounts = models.BigIntegerField()
    members = models.JSONField(default=dict)
    rising = ArrayField(models.BigIntegerField(), default=list)
    falling = ArrayField(models.BigIntegerField(), default=list)
    counted_at = models.DateTimeField(db_column="taken_at")
    seconds = models.FloatField()

    class Meta:
        db_table = "engagement_tally"

    def __str__(self) -> str:
        return f"of {self.users:,} users and {self.accounts:,} accounts at {self.counted_at}"


class Engagement(models.Model):
    """A subject's numbers in one set of scores.

    ``raw`` is the sum of count times weight over the scored events in the window;
    ``raw_yesterday`` and ``raw_last_period`` are the same for the windows that ended one day and
    one lookback before. ``event_count`` is the number of scored events in the window,
    ``active_days`` of distinct UTC days with one, ``name_count`` of distinct scored event names.
    ``last_active_at`` is the time of the last scored event ever. The score from 0 to 100 is a
    function of ``raw`` and the set's benchmark (``engagement.scores.formula``) and is not
    stored.
    """

    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    score_set = models.ForeignKey(
        ScoreSet, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    raw = models.BigIntegerField()
    raw_yesterday = models.BigIntegerField(default=0)
    raw_last_period = models.BigIntegerField(default=0)
    event_count = models.BigIntegerField()
    active_days = models.PositiveSmallIntegerField()
    name_count = models.IntegerField(default=0)
    last_active_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class UserEngagement(Engagement):
    """A user's numbers. Users outside the set's audience have no row."""

    pk = models.CompositePrimaryKey("product_id", "score_set_id", "user_id")
    user = models.ForeignKey(
        "engagement.User",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="engagements",
    )

    class Meta:
        indexes = [
            # The ranking, page by page, and the percentiles above zero.
            models.Index(F("score_set"), F("raw").desc(), F("user").desc(), name="user_ranking"),
            # Segments of those who went quiet before the window; they have no points. Whoever is
            # active is not in it, so that scoring them costs nothing more.
            models.Index(
                fields=["score_set", "last_active_at"], condition=Q(raw=0), name="user_idle"
            ),
        ]

    def __str__(self) -> str:
        return f"user {self.user_id} in score set {self.score_set_id}: {self.raw}"


class AccountEngagement(Engagement):
    """An account's numbers: sums over the events attributed to it, of users in the audience.

    ``active_users`` is the number of its users with a scored event in the window,
    ``total_users`` of those whose current account it is and of those who are in another one now
    but have an event in this one in the last 90 days.
    """

    pk = models.CompositePrimaryKey("product_id", "score_set_id", "account_id")
    account = models.ForeignKey(
        "engagement.Account",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="engagements",
    )
    active_users = models.IntegerField()
    total_users = models.IntegerField(default=0)

    class Meta:
        indexes = [
            # The ranking, page by page, and the percentiles above zero.
            models.Index(
                F("score_set"), F("raw").desc(), F("account").desc(), name="account_ranking"
            ),
            # As user_idle.
            models.Index(
                fields=["score_set", "last_active_at"], condition=Q(raw=0), name="account_idle"
            ),
        ]

    def __str__(self) -> str:
        return f"account {self.account_id} in score set {self.score_set_id}: {self.raw}"


class RescoreRequest(models.Model):
    """Says that the scores of a user or an account must be computed again; with a ``day`` and
    neither of them, that counts of the product changed on that day or later ones.

    Recording only ever appends marks and never waits for one; rescoring deletes what it has read.
    Several marks of one subject are ordinary.
    """

    id = models.BigAutoField(primary_key=True)
    # Rescoring walks the products that have marks.
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_constraint=False)
    user_id = models.BigIntegerField(null=True)
    account_id = models.BigIntegerField(null=True)
    day = models.DateField(null=True)

    class Meta:
        db_table = "engagement_stalemark"

    def __str__(self) -> str:
        return f"user {self.user_id} / account {self.account_id} / since {self.day}"
