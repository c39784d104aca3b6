"""Models that say how likely outcomes are, and the forecasts that were made with them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class ChanceModel(models.Model):
    """A version of the model of a kind of outcome. The latest one of a workspace, a kind, and an
    age is in use; the others stay as long as a forecast names them.

    ``age`` is the day of the evaluation on which it predicts; of other kinds, the days before the
    decision. ``outcomes`` and ``good`` are what it was learned from. ``coefficients`` is None while
    these are too few: then all have the share of good ones. ``proof`` is an
    ``outcomes.chances.results.Proof`` as JSON, None as long as nothing can be judged. ``revision``
    is that of the license ledger, and ``score_set_id`` the set that says which events count.
    """

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, related_name="+")
    workspace = models.ForeignKey(
        "engagement.Workspace", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    kind = models.CharField(max_length=20)
    age = models.SmallIntegerField()
    fitted_at = models.DateTimeField()
    revision = models.BigIntegerField(null=True)
    score_set_id = models.BigIntegerField(null=True)
    outcomes = models.IntegerField()
    good = models.IntegerField()
    coefficients = models.JSONField(null=True)
    proof = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["workspace", "kind", "age", "-fitted_at"], name="latest_model")
        ]

    def __str__(self) -> str:
        return f"model {self.pk} of {self.kind} in workspace {self.workspace_id}"


class ChanceLook(models.Model):
    """The last look at the chances of a workspace: when it began, and what it began with, the
    ``revision`` of the license ledger (None without one) and the set of scores. ``totals`` has an
    ``outcomes.chances.results.Totals`` as JSON for each kind."""

    workspace = models.OneToOneField(
        "engagement.Workspace", on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    looked_at = models.DateTimeField()
    revision = models.BigIntegerField(null=True)
    score_set_id = models.BigIntegerField()
    totals = models.JSONField(null=True)

    def __str__(self) -> str:
        return f"look at workspace {self.workspace_id} at {self.looked_at}"


class StoredForecast(models.Model):
    """What is expected to renew in the months ahead, as of the day on which it was made.

    ``kind`` is *renewal* or *monthly_stay*. A forecast that ``stays`` was made on the first look of
    a month, and is never changed. The other is that of the latest look, and the next one replaces
    it.
    ``result`` is an ``outcomes.forecasts.results.Forecast`` as JSON. ``looked_at`` is the time of
    the look at chances that it follows from, and ``versions`` are those of their models.

    The arrays have the terms of a forecast that stays, to tell what became of exactly these: the
    license ("" once its account is forgotten), the day on which the term ends, its amounts,
    and the chance, which is 0 or 1 if the customer had answered.
    """

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, related_name="+")
    workspace = models.ForeignKey(
        "engagement.Workspace", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    kind = models.CharField(max_length=20)
    made_on = models.DateField()
    looked_at = models.DateTimeField()
    stays = models.BooleanField()
    result = models.JSONField()
    versions = models.JSONField()
    licenses = ArrayField(models.CharField(max_length=200))
    days = ArrayField(models.DateField())
    seats = ArrayField(models.IntegerField(null=True))
    cents = ArrayField(models.BigIntegerField(null=True))
    chances = ArrayField(models.FloatField())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "kind", "stays", "made_on"],
                name="one_forecast_of_a_kind_a_day",
            )
        ]

    def __str__(self) -> str:
        return f"forecast of {self.kind} in workspace {self.workspace_id}, made on {self.made_on}"
