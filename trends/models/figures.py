"""Figures of a workspace and of its segments at the end of each UTC day."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from engagement.models import Workspace

# In place of a segment: the whole workspace.
WHOLE = 0
# Scores from 0 to 100 in bands of ten points; the last one contains 100.
BAND_COUNT = 10
# A year, and the year before it.
KEPT_WEEKS = 106
# The columns that every day has, and those that only a night knows.
FIGURES = (
    *("accounts", "daily_accounts", "weekly_accounts"),
    *("new_accounts", "returned_accounts", "stopped_accounts"),
    *("account_mean", "account_median", "account_bands"),
    *("users", "daily_users", "weekly_users", "user_mean", "user_median", "user_bands"),
)
SEATS = ("seats", "active_seats")


class DayFigures(models.Model):
    """A workspace, or one of its segments, at the end of a complete UTC day.

    *Active* is who did an event that weighs more than zero, users of the audience alone if there
    is one. ``weekly_*`` are active in the seven days that end with ``day``. An account is *new* on
    its first active day ever, *stopped* on the 28th day after its last one, and *returned* on an
    active day after it had stopped. ``accounts`` and ``users`` are all that were known.

    Scores are those at the end of the day as shown, by the definition of ``score_set_id``. Means
    and medians are None without a subject; bands count subjects from low to high. Of accounts with
    licenses, ``seats`` sums what is licensed, and ``active_seats`` their weekly active users, at
    most the seats of each; None without licenses, and of days before the first night: past seats
    are not known.

    The row of the whole workspace (``segment_id`` is ``WHOLE``) is computed again when counts
    arrive late. That of a segment says what was known in the night after, because nobody knows who
    would have been its members; ``entered`` and ``left`` are against the night before, None on its
    first day and after its rule or what counts was edited. A segment of users has no figures of
    accounts. One of accounts has no scores of users, and counts a user of two accounts twice.
    """

    pk = models.CompositePrimaryKey("workspace_id", "segment_id", "day")
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="day_figures")
    segment_id = models.BigIntegerField(default=WHOLE)
    day = models.DateField()
    score_set_id = models.BigIntegerField()

    accounts = models.IntegerField(null=True)
    daily_accounts = models.IntegerField(null=True)
    weekly_accounts = models.IntegerField(null=True)
    new_accounts = models.IntegerField(null=True)
    returned_accounts = models.IntegerField(null=True)
    stopped_accounts = models.IntegerField(null=True)
    account_mean = models.FloatField(null=True)
    account_median = models.FloatField(null=True)
    account_bands = ArrayField(models.IntegerField(), size=BAND_COUNT, default=list)

    users = models.IntegerField(null=True)
    daily_users = models.IntegerField(null=True)
    weekly_users = models.IntegerField(null=True)
    user_mean = models.FloatField(null=True)
    user_median = models.FloatField(null=True)
    user_bands = ArrayField(models.IntegerField(), size=BAND_COUNT, default=list)

    seats = models.IntegerField(null=True)
    active_seats = models.IntegerField(null=True)

    entered = models.IntegerField(null=True)
    left = models.IntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.day} of workspace {self.workspace_id}, segment {self.segment_id}"
