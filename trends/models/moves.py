"""Who entered and left segments, from night to night."""

from django.db import models

from engagement.models import Product, Segment


class SegmentRoster(models.Model):
    """The members of a segment in the last night, to be compared with those of the next.

    ``members`` are their ids, sorted and packed (``trends.figures.members``). ``rule`` is the one
    that they were found by, with the score set: an edit of either begins again, so that it is not
    told as a move.
    """

    segment = models.OneToOneField(
        Segment, on_delete=models.CASCADE, primary_key=True, related_name="roster"
    )
    day = models.DateField()
    rule = models.JSONField()
    members = models.BinaryField()

    def __str__(self) -> str:
        return f"members of segment {self.segment_id} on {self.day}"


class SegmentMove(models.Model):
    """A user or an account that entered a segment between two nights, or left it.

    Bounded: a segment of which more subjects moved in a night than are worth reading has only the
    numbers of ``DayFigures``, and old rows are deleted.
    """

    pk = models.CompositePrimaryKey("product_id", "scope", "subject_id", "segment_id", "day")
    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )
    scope = models.CharField(max_length=7, choices=Segment.Scope.choices)
    subject_id = models.BigIntegerField()
    segment_id = models.BigIntegerField()
    day = models.DateField()
    is_entry = models.BooleanField()

    class Meta:
        indexes = [
            # Who moved this week, on the page of the segment; and the deletion of old rows.
            models.Index(fields=["product", "segment_id", "day"], name="segment_move_by_day"),
        ]

    def __str__(self) -> str:
        verb = "entered" if self.is_entry else "left"
        return f"{self.scope} {self.subject_id} {verb} segment {self.segment_id} on {self.day}"
