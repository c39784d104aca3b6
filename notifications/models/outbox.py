"""The outbox: messages to send, and the attempts to deliver them."""

from typing import TypeAlias

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core.outbound.requests import Outcome
from notifications.models.destinations import Destination
from notifications.models.subscriptions import Subscription


class OutboxMessage(models.Model):
    """A message to a destination, written in the transaction that found the change.

    ``message_id`` is the same in each attempt. ``subject_id`` is that of a user or an account;
    None for a message about the product or about many subjects. ``name`` is the subject's, for the
    log. The first attempt was at ``first_attempt_at``.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        DELIVERED = "delivered", "Delivered"
        FAILED = "failed", "Not delivered"

    id = models.BigAutoField(primary_key=True)
    message_id = models.CharField(max_length=40, unique=True)
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_constraint=False)
    # Both may have been deleted since: nothing deletes many messages within one request.
    destination = models.ForeignKey(
        Destination, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    # None for a test.
    subscription = models.ForeignKey(
        Subscription, null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    scope = models.CharField(max_length=7, blank=True)
    subject_id = models.BigIntegerField(null=True)
    external_id = models.TextField(blank=True)
    name = models.TextField(blank=True)
    title = models.TextField()
    payload = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    first_attempt_at = models.DateTimeField(null=True)
    next_attempt_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "notification"
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "delivered", "failed"]),
                name="outbox_state_known",
            ),
        ]
        indexes = [
            # The next message of a destination, in order.
            models.Index(
                fields=["destination", "id"],
                condition=Q(state="waiting"),
                name="outbox_waiting",
            ),
            # An earlier message about the same subject, which must arrive first.
            models.Index(
                fields=["destination", "scope", "subject_id", "id"],
                condition=Q(state="waiting"),
                name="outbox_waiting_subject",
            ),
            # Whether a subject had a message in the subscription's quiet period.
            models.Index(
                fields=["subscription", "subject_id", "created_at"], name="outbox_last_told"
            ),
            # The log, newest first.
            models.Index(fields=["destination", "-id"], name="outbox_log"),
            # What names a forgotten subject.
            models.Index(fields=["product", "scope", "external_id"], name="outbox_by_subject"),
            # Retention.
            models.Index(fields=["created_at"], name="outbox_age"),
        ]

    def __str__(self) -> str:
        return self.title


class Delivery(models.Model):
    """An attempt to deliver a message, or several in one email: the request and what came back."""

    Outcome: TypeAlias = Outcome

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_constraint=False)
    message = models.ForeignKey(
        OutboxMessage, on_delete=models.DO_NOTHING, db_constraint=False, related_name="deliveries"
    )
    attempted_at = models.DateTimeField()
    outcome = models.CharField(max_length=11, choices=Outcome.choices)
    status = models.PositiveSmallIntegerField(null=True)
    seconds = models.FloatField()
    error = models.TextField(blank=True)
    response = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]
        verbose_name_plural = "deliveries"
        indexes = [models.Index(fields=["attempted_at"], name="delivery_age")]

    def __str__(self) -> str:
        return f"{self.get_outcome_display()} at {self.attempted_at}"
