"""The demo's ingestion log shows each feature of the log."""

import pytest
from django.utils import timezone

from engagement.models import Product
from harness.demo.ingestion_log import fill_last_24h
from ingestion.log import last_24h, newest
from ingestion.log.search import MessageState
from tests.start.test_commands import output_of

pytestmark = pytest.mark.django_db


def test_the_newest_messages_are_of_all_kinds_and_outcomes() -> None:
    options = "--accounts 6 --users 60 --days 10 --event-days 10 --activity 100"
    output_of("generate_data", *options.split())
    product, now = Product.objects.get(), timezone.now()
    fill_last_24h(product.pk, now, seed=1)
    entries = newest.newest_messages(product, now).entries
    assert {hit.message.kind for hit in entries} >= {"track", "identify", "/v2/track"}
    states = {hit.state for hit in entries}
    assert states >= {MessageState.RECORDED, MessageState.DOUBTFUL_TIME, MessageState.REFUSED}
    groups = newest.newest_messages(product, now, kind="group").entries
    assert len(groups) == 3 and "Sent these traits: " in groups[0].explanation
    assert last_24h.count_refused(product.pk, now) == {"missing_field": 17}
