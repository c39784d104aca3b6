"""Stored orders: the ids of a large score set's subjects in the order of one column."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

COLUMN_LENGTH = 520


class StoredOrder(models.Model):
    """One column's order of the users or accounts of a score set, see ``engagement.orders``.

    ``row_count`` subjects are in it. The first ``present_count`` of them have a value, and those
    without one come last. Both are those of ``version``. The version before it is kept for walks
    that began with it. ``computed_at`` is None and ``version`` 0 until the order has been computed,
    which last took ``seconds``. ``used_at`` is about when somebody last read the order, None if
    nobody has.
    """

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    score_set = models.ForeignKey(
        "engagement.ScoreSet", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    scope = models.CharField(max_length=7)
    column = models.CharField(max_length=COLUMN_LENGTH)
    version = models.BigIntegerField(default=0)
    row_count = models.BigIntegerField(default=0)
    present_count = models.BigIntegerField(default=0)
    previous_row_count = models.BigIntegerField(default=0)
    previous_present_count = models.BigIntegerField(default=0)
    computed_at = models.DateTimeField(null=True)
    seconds = models.FloatField(default=0.0)
    used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["score_set", "scope", "column"], name="stored_order_per_column"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope}s of score set {self.score_set_id} by {self.column}"


class OrderChunk(models.Model):
    """Consecutive ids of a stored order; chunk ``number`` begins at place number × CHUNK_SIZE.

    The id of a subject that was forgotten since is replaced with 0.
    """

    pk = models.CompositePrimaryKey("product_id", "order_id", "version", "number")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    order = models.ForeignKey(
        StoredOrder, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    version = models.BigIntegerField()
    number = models.IntegerField()
    ids = ArrayField(models.BigIntegerField())

    def __str__(self) -> str:
        return f"chunk {self.number} of order {self.order_id}"
