"""Models that say how likely outcomes are, and the forecasts that were made with them."""

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
    ``revision`` of the license ledger (None without one) and the set of scores."""

    workspace = models.OneToOneField(
        "engagement.Workspace", on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    looked_at = models.DateTimeField()
    revision = models.BigIntegerField(null=True)
    score_set_id = models.BigIntegerField()

    def __str__(self) -> str:
        return f"look at workspace {self.workspace_id} at {self.looked_at}"


class StoredForecast(models.Model):
    """What was expected of the terms that end in a month, as it was on the day it was made. It is
    never changed.

    ``measure`` is *seats* or *cents* (of US dollars, a month or a term: what its sales add up to).
    ``due`` is the sum of all terms, ``expected`` what renews of it, with an 80% interval. ``terms``
    has each term as [license, last day, amount, chance], so that what became of exactly these can
    be told. ``parts`` are sums by band of scores. ``versions`` are those of the models.
    """

    class Measure(models.TextChoices):
        SEATS = "seats", "seats"
        CENTS = "cents", "revenue"

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, related_name="+")
    workspace = models.ForeignKey(
        "engagement.Workspace", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    measure = models.CharField(max_length=5, choices=Measure.choices)
    month = models.DateField()
    made_on = models.DateField()
    due = models.BigIntegerField()
    expected = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()
    terms = models.JSONField()
    parts = models.JSONField()
    versions = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "measure", "month", "made_on"],
                name="one_forecast_of_a_month_a_day",
            )
        ]

    def __str__(self) -> str:
        return f"forecast of {self.month:%B %Y}, made on {self.made_on}"
