"""Recorded requests of SDKs that cannot run here: each message counts once, where it belongs."""

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest
from django.conf import settings

from tests.clients.recordings import RECORDINGS
from tests.clients.recordings.story import AGO, VIEWS, Recording
from tests.clients.replaying import Replayer
from tests.clients.service import Service

DOCUMENT = Path(settings.BASE_DIR) / "docs" / "sending-data.md"
# PHP writes whole seconds; the rest is the way of the requests on a busy machine.
ON_THE_WAY = timedelta(seconds=60)


class Delivery(NamedTuple):
    """What a recording has sent."""

    recording: Recording
    user: str
    account: str
    at: datetime
    refusal: str

    @property
    def counts(self) -> dict[str, int]:
        view = self.recording.view
        return {"Report exported": 1, f"Viewed {VIEWS[view]} {view.title()}": 1}


@pytest.fixture(scope="module")
def deliveries(service: Service) -> Iterator[dict[str, Delivery]]:
    """All recordings, sent one after another before any of them is looked at."""
    dropped = service.dropped()
    deliveries = {}
    with closing(Replayer(service)) as replayer:
        for recording in RECORDINGS:
            number = secrets.randbelow(2**50)
            user, account = ids(recording, number)
            refusal = replayer.replay(recording, user, account)
            at = datetime.now(UTC) - AGO
            deliveries[recording.sdk] = Delivery(recording, str(user), str(account), at, refusal)
    service.until_drained()
    yield deliveries
    # Repeats are dropped by their ids. Nothing else may be dropped.
    assert set(service.dropped() - dropped) <= {"duplicate", "alias"}


def ids(recording: Recording, number: int) -> tuple[str | int, str | int]:
    """Ids of the recording's own. Applications often number their users and accounts."""
    if recording.has_numeric_ids:
        return 2 * number, 2 * number + 1
    return f"ada-{number}", f"initech-{number}"


@pytest.mark.parametrize("sdk", [recording.sdk for recording in RECORDINGS])
def test_each_recorded_message_counts_once(
    sdk: str, deliveries: dict[str, Delivery], service: Service
) -> None:
    delivery = deliveries[sdk]
    assert delivery.refusal == ""
    user = service.read_counted("user", delivery.user, delivery.counts)
    assert user["traits"].items() >= {"email": "ada@example.com", "seats": 3}.items()
    assert abs(datetime.fromisoformat(user["last_active_at"]) - delivery.at) < ON_THE_WAY
    account_traits = delivery.recording.account_traits
    if account_traits is None:
        assert user["account"] is None
        return
    assert user["account"]["tracking_id"] == delivery.account
    account = service.read_counted("account", delivery.account, delivery.counts)
    assert account["traits"] == account_traits
    assert account["metrics"]["total_users"] == 1


def test_every_recording_names_its_source_and_is_in_the_documented_table() -> None:
    rows = re.findall(r"^\| (.+?) \| (\S+) \| .+ \| replayed \|$", DOCUMENT.read_text(), re.M)
    assert rows == [(recording.sdk, recording.version) for recording in RECORDINGS]
    for recording in RECORDINGS:
        repository, _, commit = recording.source.partition("@")
        assert repository.count("/") == 1
        assert len(commit) == 8


# The packages of the SDKs that run, by their names in the table.
NODE_SDKS = {
    "Segment Node.js": "@segment/analytics-node",
    "Segment Node.js, the older `analytics-node`": "analytics-node",
    "Segment browsers": "@segment/analytics-next",
    "Segment snippet": "@segment/snippet",
    "Segment React Native": "@segment/analytics-react-native",
    "RudderStack Node.js": "@rudderstack/rudder-sdk-node",
    "RudderStack browsers": "@rudderstack/analytics-js",
}
PYTHON_SDKS = {
    "Segment Python": "segment-analytics-python",
    "RudderStack Python": "rudder-sdk-python",
}


def test_the_documented_table_has_the_versions_that_run() -> None:
    rows = re.findall(r"^\| (.+?) \| (\S+) \| .+ \| runs[^|]* \|$", DOCUMENT.read_text(), re.M)
    package = json.loads((Path(__file__).parent / "package.json").read_text())
    node = {sdk: package["dependencies"][name] for sdk, name in NODE_SDKS.items()}
    python = {sdk: version(name) for sdk, name in PYTHON_SDKS.items()}
    assert dict(rows) == node | python
