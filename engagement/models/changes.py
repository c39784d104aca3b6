"""What changed since when: a stamp for each user and account, and the latest stamp of a product."""

from django.db import models


class ChangeStamp(models.Model):
    """The latest stamp of a product. Each transaction that stamps changes takes the next one."""

    product = models.OneToOneField(
        "engagement.Product", on_delete=models.CASCADE, primary_key=True, db_constraint=False
    )
    stamp = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.stamp} in product {self.product_id}"


class SubjectChange(models.Model):
    """The stamp of the last change of a user or an account. It stays when the subject is gone.

    No index has the stamp, so that PostgreSQL replaces a row within its page (HOT). Readers walk
    the key, page by page.
    """

    class Kind(models.IntegerChoices):
        ACCOUNT = 0
        USER = 1

    pk = models.CompositePrimaryKey("product_id", "kind", "subject_id")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    kind = models.SmallIntegerField(choices=Kind.choices)
    subject_id = models.BigIntegerField()
    stamp = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.Kind(self.kind).label} {self.subject_id} at {self.stamp}"


class PendingStamps(models.Model):
    """Subjects of a current score set that changed segments without being scored.

    Those up to ``stamped_until`` are stamped. Deleted when all are.
    """

    score_set = models.ForeignKey("engagement.ScoreSet", on_delete=models.CASCADE)
    kind = models.SmallIntegerField(choices=SubjectChange.Kind.choices)
    stamped_until = models.BigIntegerField(default=0)

    class Meta:
        abstract = True


class TurnedDay(PendingStamps):
    """The UTC day turned from ``before`` to ``day``."""

    before = models.DateField()
    day = models.DateField()

    def __str__(self) -> str:
        return f"{self.day} of score set {self.score_set_id}"


class EditedRule(PendingStamps):
    """The rule of a segment was edited. ``before`` is None for a new segment, ``after`` for a
    deleted one."""

    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    def __str__(self) -> str:
        return f"Edited rule of score set {self.score_set_id}"


class MovedThreshold(PendingStamps):
    """Others' scores moved a threshold of a segment, over the values of ``metric`` from ``low`` to
    below ``high``."""

    metric = models.CharField(max_length=30)
    low = models.BigIntegerField()
    high = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.metric} {self.low} to {self.high} of score set {self.score_set_id}"
