"""Alarms: what the service concludes from the activity of accounts, and what it concluded it by."""

from typing import Any

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from core.product_keys import ProductForeignKey


class ActiveDay(models.Model):
    """A complete UTC day on which an account was active: its active users, by a score set.

    ``users`` is the number of identified users, of the set's audience if it has one, with an event
    that weighs more than zero. ``hour`` is the median UTC hour of their last events. ``late`` is
    the number of days, up to a week, after which at least half of them became known.
    """

    pk = models.CompositePrimaryKey("product_id", "score_set_id", "account_id", "day")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    score_set = models.ForeignKey(
        "engagement.ScoreSet",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    account = ProductForeignKey(
        "engagement.Account",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    day = models.DateField()
    users = models.IntegerField()
    hour = models.SmallIntegerField()
    late = models.SmallIntegerField(db_default=0)

    class Meta:
        indexes = [
            # Old days are deleted. Most rows come in the order of days.
            BrinIndex(
                fields=["day"], name="active_day_by_day", autosummarize=True, pages_per_range=32
            ),
        ]

    def __str__(self) -> str:
        return f"{self.users} users of account {self.account_id} on {self.day}"


class LateDay(models.Model):
    """What counts of an account changed on *day*, or later, after those days were in the set's
    active days. The next night computes them again from there on.

    ``is_counted`` says that counts changed. Otherwise it was only who belongs to the audience.
    """

    pk = models.CompositePrimaryKey("product_id", "score_set_id", "account_id")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    score_set = models.ForeignKey(
        "engagement.ScoreSet",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    account_id = models.BigIntegerField()
    day = models.DateField()
    is_counted = models.BooleanField()

    def __str__(self) -> str:
        return f"account {self.account_id} since {self.day}"


class AlarmNight(models.Model):
    """What decided the alarms of a workspace after a complete UTC day.

    ``user_days`` is the number of user-days of all accounts on the day. The other numbers are None
    for a day without a decision: ``parameters`` has the common movements, the dispersions, and the
    rates of alarms by unit of p (``engagement.alarms``); ``summary`` counts accounts by size and
    state, for pages. ``decided_at`` is None while a replay decides the night, too.
    """

    workspace = models.ForeignKey(
        "engagement.Workspace", on_delete=models.CASCADE, related_name="alarm_nights"
    )
    day = models.DateField()
    user_days = models.BigIntegerField()
    score_set_id = models.BigIntegerField(null=True)
    accounts = models.BigIntegerField(null=True)
    parameters = models.JSONField(null=True)
    summary = models.JSONField(null=True)
    is_replayed = models.BooleanField(default=False)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "day"], name="one_night_per_workspace")
        ]

    def __str__(self) -> str:
        return f"night after {self.day} of workspace {self.workspace_id}"

    @classmethod
    def latest_of(cls, workspace: Any) -> models.QuerySet["AlarmNight"]:
        """The nights of the workspace that are decided, the last one first."""
        return cls.objects.filter(workspace=workspace, decided_at__isnull=False).order_by("-day")


class Alarm(models.Model):
    """An alarm about an account of a workspace, open or ended, and the numbers that decided it.

    ``level`` is the allowed rate of false alarms that it belongs to (``engagement.alarms.levels``):
    each level has alarms of its own, so that a changed setting has a history at once. ``since`` is
    the complete day that decided it, ``ended_on`` the one that ended it. ``is_replayed`` says that
    it was found later: by a replay, or by a first look of what ended weeks ago. ``window_days``,
    ``observed``, ``expected``, ``dispersion``, and ``p`` are those of ``since``; ``latest`` has
    those of the last night. ``baseline_from`` and ``baseline_to`` are the first and last day of
    what was usual: ``weekly_rate`` active user-days a week, and ``burstiness`` how much more these
    weeks vary than those of other accounts. Levels below 0 are those of a replay that is under way
    (``engagement.nights.replays``), which nobody reads.
    """

    class Signal(models.TextChoices):
        FALL = "fall", "activity falls"
        RISE = "rise", "activity rises"
        FEATURE = "feature", "an event is no longer used"
        LEAVING = "leaving", "users leave"
        KEY_USER = "key_user", "the most active user is quiet"

    class Outcome(models.TextChoices):
        OPEN = "", "open"
        RECOVERED = "recovered", "back to usual"
        SETTLED = "settled", "settled at a new level"
        REPLACED = "replaced", "decided again from the beginning"

    pk = models.CompositePrimaryKey(
        "product_id", "workspace_id", "account_id", "signal", "level", "since"
    )
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    workspace = models.ForeignKey(
        "engagement.Workspace",
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    account = ProductForeignKey(
        "engagement.Account",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    signal = models.CharField(max_length=8, choices=Signal.choices)
    level = models.SmallIntegerField()
    since = models.DateField()
    ended_on = models.DateField(null=True)
    outcome = models.CharField(max_length=9, choices=Outcome.choices, default=Outcome.OPEN)
    is_stopped = models.BooleanField(default=False)
    is_replayed = models.BooleanField(default=False)
    window_days = models.SmallIntegerField()
    observed = models.IntegerField()
    expected = models.FloatField()
    dispersion = models.FloatField()
    p = models.FloatField()
    baseline_from = models.DateField(null=True)
    baseline_to = models.DateField(null=True)
    weekly_rate = models.FloatField(null=True)
    burstiness = models.FloatField(null=True)
    latest = models.JSONField(default=dict)
    details = models.JSONField(default=dict)

    class Meta:
        indexes = [
            # Insights and filters ask for the open ones; there are few.
            models.Index(
                fields=["product", "workspace_id", "signal", "level", "account"],
                condition=Q(ended_on=None),
                name="alarm_open",
            ),
            # The state of an account's activity, as a filter, asks for those of some weeks.
            models.Index(
                fields=["product", "workspace_id", "signal", "level", "since"],
                condition=Q(outcome="settled"),
                name="alarm_settled",
            ),
            # What changed in a week asks for those that began in it, and that ended in it.
            models.Index(
                fields=["product", "workspace_id", "level", "since"], name="alarm_by_onset"
            ),
            models.Index(
                fields=["product", "workspace_id", "level", "ended_on"],
                condition=Q(ended_on__isnull=False),
                name="alarm_by_end",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.signal} of account {self.account_id} since {self.since}"


class HabitPart(models.Model):
    """What a weekly look has read of some accounts of a score set. The end of the look deletes it.

    ``habits`` and ``users`` are arrays of ``engagement.alarms.habits`` (HABIT, and REGULAR of the
    accounts of which a regular user is quiet); ``user_ends`` are its counts of all regular users.
    """

    score_set = models.ForeignKey(
        "engagement.ScoreSet", on_delete=models.CASCADE, related_name="habit_parts"
    )
    habits = models.BinaryField()
    users = models.BinaryField()
    user_ends = models.JSONField()

    def __str__(self) -> str:
        return f"a part of the look at score set {self.score_set_id}"
