"""How likely accounts are to buy, to renew, or to go quiet."""

from django.db import models

from core.product_keys import ProductForeignKey


class AccountChance(models.Model):
    """How likely what is being decided about an account is to end well, as of the last look.

    ``kind`` is one of ``outcomes.kinds``: the chance that an evaluation is bought, a term renewed,
    a monthly license kept, or that an account stays as it is. ``license`` is "" if none is decided.
    ``began_on`` and ``day`` are the first day and the day of the decision. ``chance`` (0 to 1) has
    a 95% interval, and the number of past ``outcomes`` that it was learned from. With too few of
    them it is the share of all good ones (``is_share``), which says nothing of this account.
    ``version`` is the model's. ``evidence`` is an ``outcomes.chances.results.Evidence`` as JSON.

    The package ``outcomes`` writes it (``outcomes.chances``). It is here because conditions and
    lists of accounts read it.
    """

    pk = models.CompositePrimaryKey("product_id", "workspace_id", "account_id", "kind", "license")
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
    kind = models.CharField(max_length=20)
    license = models.CharField(max_length=200, blank=True)
    began_on = models.DateField()
    day = models.DateField()
    chance = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()
    outcomes = models.IntegerField()
    is_share = models.BooleanField()
    version = models.BigIntegerField(null=True)
    seats = models.IntegerField(null=True)
    cents = models.BigIntegerField(null=True)
    evidence = models.JSONField(default=dict)
    looked_on = models.DateField()

    class Meta:
        indexes = [
            # The list of what is decided next, and the accounts below or above a chance.
            models.Index(fields=["product", "workspace_id", "kind", "day"], name="chance_by_day"),
            models.Index(fields=["product", "workspace_id", "kind", "chance"], name="chance_order"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of account {self.account_id}: {self.chance:.0%}"
