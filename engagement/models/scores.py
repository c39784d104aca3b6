"""What scoring derives: for each workspace a score set with a row for each subject."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from core.product_keys import ProductForeignKey
from engagement.models.products import Seats

# The version of the metrics in a set. A release rebuilds the sets of earlier versions when it first
# works on their product. 1: an account's users include those without an event. 2: accounts have the
# numbers that insights compare. 3: rows have the raw score of one lookback before yesterday.
FORMULA_VERSION = 3


class ScoreSet(models.Model):
    """All scores of a workspace under one definition of what counts.

    An edited workspace gets a new set. The service builds it in the background, with the benchmarks
    of past days, and then makes it the workspace's ``scores`` in one step. Until then readers see
    the old set with its old definition. The old set stays a little longer, for requests that are
    reading it, and is then deleted in bounded transactions.

    With ``half_life_days``, raw scores are on the scale of ``reference_day``, the day on which the
    set was begun (``engagement.scores.formula``).

    ``scored_day`` is the UTC day at which the windows of the rows end. The benchmarks are the 90th
    percentiles of the raw scores above zero: now, a day ago, one lookback ago, and one lookback
    before yesterday; None if there is none. With a half-life, only the raw scores of subjects that
    are active at the time count. The quantiles are ``QUANTILES`` equally spaced ones of
    the same raw scores, from low to high; empty if there is none. ``scored_event_name_count`` is
    the number of event names that the definition scores. All of these are computed together, and
    are stale when scores have changed since. The benchmarks of past days are to be computed again
    from ``past_benchmarks_stale_from`` on, and the figures of days (``trends``) from
    ``figures_stale_from`` on.
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
    half_life_days = models.PositiveSmallIntegerField(null=True)
    reference_day = models.DateField(null=True)
    default_weight = models.PositiveSmallIntegerField()
    audience = models.JSONField(default=dict)
    # Those of the product.
    seats = models.CharField(
        max_length=10, choices=Seats.choices, default=Seats.HOST, db_default=Seats.HOST
    )
    # 0 if an older release built the set.
    formula_version = models.PositiveSmallIntegerField(
        db_column="formula", default=FORMULA_VERSION, db_default=0
    )

    # The progress of building: the phase, its last scored subject, and how many of how many.
    phase = models.CharField(max_length=10, choices=Phase.choices, default=Phase.USERS)
    built_until = models.BigIntegerField(default=0)
    built = models.BigIntegerField(default=0)
    to_build = models.BigIntegerField(null=True)

    scored_day = models.DateField(null=True)
    user_benchmark = models.FloatField(null=True)
    user_benchmark_yesterday = models.FloatField(null=True)
    user_benchmark_last_period = models.FloatField(null=True)
    user_benchmark_yesterday_last_period = models.FloatField(null=True)
    account_benchmark = models.FloatField(null=True)
    account_benchmark_yesterday = models.FloatField(null=True)
    account_benchmark_last_period = models.FloatField(null=True)
    account_benchmark_yesterday_last_period = models.FloatField(null=True)
    user_quantiles = ArrayField(models.BigIntegerField(), default=list)
    account_quantiles = ArrayField(models.BigIntegerField(), default=list)
    scored_event_name_count = models.IntegerField(db_column="scored_names", default=0)
    benchmarks_at = models.DateTimeField(null=True)
    benchmarks_stale = models.BooleanField(default=True)
    # The release before this one reads it.
    benchmark_seconds = models.FloatField(default=0.0)
    # The first day whose benchmark is outdated because counts arrived later; None if there is none.
    past_benchmarks_stale_from = models.DateField(db_column="past_stale_from", null=True)
    # As before, for the figures of days.
    figures_stale_from = models.DateField(null=True)
    # The release before this one reads these two.
    past_benchmarks_at = models.DateTimeField(db_column="past_at", null=True)
    past_benchmarks_seconds = models.FloatField(
        db_column="past_seconds", default=0.0, db_default=0.0
    )
    # Scores or segments changed since the cached counts were computed.
    cached_counts_stale = models.BooleanField(
        db_column="tally_stale", default=True, db_default=True
    )
    # The active days of accounts are complete before this one; None before they are first computed.
    active_days_until = models.DateField(null=True)
    # Scores or segments changed since the watches of the set were told (``notifications``).
    watches_stale = models.BooleanField(default=True, db_default=True)

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

    @property
    def counts_seats(self) -> bool:
        """Whether active users are a share of the seats. A license covers all users of an account,
        not only an audience."""
        return not self.audience and self.seats != Seats.SITE

    @property
    def compares_seats(self) -> bool:
        """Whether seats without an active user are unused, and users without a seat too many."""
        return self.counts_seats and self.seats == Seats.APP

    @classmethod
    def name_of(cls, pk: int) -> str:
        """The name of the set's workspace, or the set's id if it is gone."""
        score_set = cls.objects.select_related("workspace__product").filter(pk=pk).first()
        return str(score_set.workspace if score_set else pk)


class ScoredEvent(models.Model):
    """The weight of an event name in a score set, from the workspace when the set was requested.

    An event that weighs 0 is not scored.
    """

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
    """The benchmarks of a score set at the end of a UTC day, or now for today.

    A day without a row has the benchmarks of the day before it.
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
    """The counts of a score set: its subjects, those with a raw score above zero, and the members
    of its workspace's segments, by the segment and the version of its rule.

    ``rising`` and ``falling`` are the ids of the accounts whose scores changed most, the largest
    change first; ``newest`` of new accounts, the highest score first. ``insights`` has the number
    of accounts with each insight, and ``costliest`` the ids of some, by the insight's kind
    (``engagement.segments.attention``). ``seconds`` is how long counting took.
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
    newest = ArrayField(models.BigIntegerField(), default=list, db_default=[])
    insights = models.JSONField(default=dict, db_default={})
    costliest = models.JSONField(default=dict, db_default={})
    counted_at = models.DateTimeField(db_column="taken_at")
    seconds = models.FloatField()

    class Meta:
        db_table = "engagement_tally"

    def __str__(self) -> str:
        return f"of {self.users:,} users and {self.accounts:,} accounts at {self.counted_at}"


class Engagement(models.Model):
    """A subject's engagement metrics in one score set.

    ``raw`` is the sum of count times weight over the scored events in the window;
    ``raw_yesterday`` and ``raw_last_period`` are the same for the windows that ended one day and
    one lookback before, ``raw_yesterday_last_period`` for the one that ended both before; None in a
    row that the release before wrote. ``event_count`` is the number of scored events in the window,
    ``active_days`` of distinct UTC days with one, and ``name_count`` of distinct scored event
    names. ``last_active_at`` is the time of the last scored event ever. The score from 0 to 100 is
    not stored: it is a function of ``raw`` and the set's benchmark (``engagement.scores.formula``).

    With a half-life, the raw scores are sums over all days until the end of their windows, times
    the factors of their days. ``settled_before`` is then the day until which
    ``raw_yesterday_last_period`` sums, so that scoring need not read the days before it again.
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
    raw_yesterday_last_period = models.BigIntegerField(null=True)
    event_count = models.BigIntegerField()
    active_days = models.PositiveSmallIntegerField()
    name_count = models.IntegerField(default=0)
    last_active_at = models.DateTimeField(null=True)
    settled_before = models.DateField(null=True)

    class Meta:
        abstract = True


class UserEngagement(Engagement):
    """A user's engagement metrics. Users outside the set's audience have no row."""

    pk = models.CompositePrimaryKey("product_id", "score_set_id", "user_id")
    user = ProductForeignKey(
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
            # Segments of users who were last active before the window, and so have no points.
            # Active users are not in it, so scoring them costs nothing more.
            models.Index(
                fields=["score_set", "last_active_at"], condition=Q(raw=0), name="user_idle"
            ),
        ]

    def __str__(self) -> str:
        return f"user {self.user_id} in score set {self.score_set_id}: {self.raw}"


class AccountEngagement(Engagement):
    """An account's engagement metrics: sums over its events, of users in the audience.

    ``active_users`` is the number of its users with a scored event in the window. ``total_users``
    counts the users whose current account it is, and the users who are in another account now but
    have an event in this one in the last 90 days. ``top_user_points`` are the points of the user
    who adds most to ``raw`` within the window. ``active_users_last_period`` and
    ``name_count_last_period`` are the numbers of the window that ended one lookback before. These
    three are 0 in sets of formula 1.
    ``activity`` is what the last night could tell of the account's activity; None before its first.
    """

    class Activity(models.IntegerChoices):
        DECIDABLE = 0
        TOO_QUIET = 1
        TOO_NEW = 2

    pk = models.CompositePrimaryKey("product_id", "score_set_id", "account_id")
    account = ProductForeignKey(
        "engagement.Account",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="engagements",
    )
    active_users = models.IntegerField()
    total_users = models.IntegerField(default=0)
    top_user_points = models.BigIntegerField(default=0, db_default=0)
    active_users_last_period = models.IntegerField(default=0, db_default=0)
    name_count_last_period = models.IntegerField(default=0, db_default=0)
    activity = models.SmallIntegerField(choices=Activity.choices, null=True)

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
            # The list of accounts about whose activity nothing can be told. They have few points,
            # so the ranking would be read nearly to its end.
            models.Index(
                F("score_set"),
                F("raw").desc(),
                F("account").desc(),
                condition=Q(activity=None) | Q(activity__gt=0),
                name="account_undecided",
            ),
        ]

    def __str__(self) -> str:
        return f"account {self.account_id} in score set {self.score_set_id}: {self.raw}"


class RescoreRequest(models.Model):
    """An entry of the rescore queue: the scores of a user or an account must be computed again.

    With a ``day``, it says that what counts of the subject, or of the product, changed on that day
    or later; the last of all days means that nothing did. Without one, any day may have changed.
    ``account_change`` says what of the account its users' records may show. Recording only appends
    entries and never waits for one. Rescoring deletes the entries that it has read. Several entries
    for one subject are normal.
    """

    class AccountChange(models.IntegerChoices):
        """The greater one includes the other."""

        TRAITS = 1
        NAME = 2

    # The table's key is the product and the id. Rescoring goes through the products that have
    # entries, and one index is enough for both.
    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    user_id = models.BigIntegerField(null=True)
    account_id = models.BigIntegerField(null=True)
    day = models.DateField(null=True)
    account_change = models.SmallIntegerField(choices=AccountChange.choices, null=True)

    class Meta:
        db_table = "engagement_stalemark"

    def __str__(self) -> str:
        return f"user {self.user_id} / account {self.account_id} / since {self.day}"
