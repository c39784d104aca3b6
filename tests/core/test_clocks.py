"""A clock that was ahead leaves nothing that rests until its time has come."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.db.models import DateTimeField

from access.models import LoginAttempts
from core.database import clocks
from engagement.models import Product, ProductUsage
from engagement.removal import maintenance
from exports.models import ExportRun
from marketplace.models import SyncRun
from notifications.models import Destination, OutboxMessage
from tests.admin.rows import Rows, fill
from tests.engagement.history import NOON
from tests.house.test_imports import APPS

# Times that say what somebody chose or what was, and that nothing waits for. What belongs to
# messages says so itself: the inbox, its claims, and the log.
OF_NO_CONCERN = {
    *("created_at", "updated_at", "expires_at", "revoked_at", "used_at", "forgotten_at"),
    *("deletion_requested_at", "keep_until", "last_at", "requested_at", "published_at"),
    *("retired_at", "last_active_at", "opened_at", "first_seen_at", "last_seen_at"),
    *("account_since", "occurred_at", "received_at", "start_at", "end_at", "at", "timestamp"),
    *("claimed_at", "not_before", "quarantined_at", "dropped_at", "hour", "minute", "seen_at"),
    *("started_at", "finished_at", "state_changed_at", "last_success_at", "last_error_at"),
    *("plain_user_name_until", "since", "unlisted_since", "verified_at", "served_at"),
    *("first_attempt_at", "attempted_at", "last_used_at", "recorded_at", "after_at"),
    # Of a night, which a clock that goes back undoes; and of the ledger, for readers of changes.
    *("decided_at", "changed_at", "withdrawn_at"),
    # Shown on a page, and of a release that is still running.
    *("benchmarks_at", "past_benchmarks_at"),
    # Of cached counts: orders that are older are computed again.
    "counted_at",
    # Shown on the page of backtests.
    "suggested_at",
    # Of a job: its page alone shows them.
    *("failed_at", "stepped_at"),
    # Of a digest: that a person ended it, and when a period was told.
    *("unsubscribed_at", "issued_at"),
    # The moment of an export's part.
    "read_at",
    # What people did about accounts, and when a record got its values.
    *("written_at", "closed_at", "sent_at"),
}


@pytest.fixture
def rows(acme: Product) -> Rows:
    return fill(acme)


def test_each_time_is_reset_or_of_no_concern() -> None:
    registered = {
        (times.model, column) for times in clocks.registered() for column in times.columns
    }
    for model in apps.get_models():
        if model.__module__.partition(".")[0] not in APPS:
            continue
        for field in model._meta.local_fields:
            if isinstance(field, DateTimeField):
                is_reset = (model, field.name) in registered
                assert is_reset or field.name in OF_NO_CONCERN, (model, field.name)


def test_what_a_clock_that_was_ahead_has_stored_does_not_rest(rows: Rows) -> None:
    ahead = NOON + timedelta(days=40)
    LoginAttempts.objects.create(subject="x", failures=9, failed_at=ahead, keep_until=ahead)
    SyncRun.objects.update(requested_at=ahead, due_at=ahead)
    ExportRun.objects.update(state="waiting", due_at=ahead, leased_until=ahead)
    OutboxMessage.objects.update(state="waiting", next_attempt_at=ahead)
    soon = NOON + timedelta(hours=1)
    Destination.objects.update(retry_at=soon, leased_until=ahead)
    maintenance.maintain(NOON)
    assert LoginAttempts.objects.get().failed_at == NOON
    assert SyncRun.objects.values_list("requested_at", "due_at").get() == (NOON, NOON)
    assert ExportRun.objects.values_list("due_at", "leased_until").get() == (NOON, NOON)
    assert OutboxMessage.objects.get().next_attempt_at == NOON
    # A pause of an hour is a pause.
    assert Destination.objects.values_list("retry_at", "leased_until").get() == (soon, NOON)
    # What is done keeps its times, and one that is right stays.
    ProductUsage.objects.update(counted_at=NOON - timedelta(minutes=1))
    assert clocks.reset_future_times(NOON) == 0
