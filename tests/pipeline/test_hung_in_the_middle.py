"""What a worker has claimed that hangs, or is gone without a word, is recorded by another."""

from contextlib import closing

import pytest
from django.db import Error, connection

from config.database import keepalive
from engagement.models import Product
from tests.engagement.history import identify, track
from tests.pipeline.waiting import counts, drain, wait, waiting
from tests.start.running import until

pytestmark = pytest.mark.django_db(transaction=True)


def test_messages_of_a_worker_that_hangs_are_recorded_by_another(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(keepalive._SERVER_SETTINGS, "idle_in_transaction_session_timeout", 300)
    wait(acme_key, identify("ada"), track("ada"))
    with closing(connection.copy()) as hung:
        hung.ensure_connection()
        hung.set_autocommit(False)
        with hung.cursor() as claim:
            claim.execute("DELETE FROM ingestion_inboxmessage")
            assert drain().messages == 0
            until(lambda: drain().messages == 2, "the messages to be given back")
            # Should it go on one day, it takes no effect.
            with pytest.raises(Error):
                claim.execute("SELECT 1")
    assert counts(acme) == {("ada", "opened"): 1}
    assert waiting() == []
