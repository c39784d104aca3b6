"""What the documents say about licenses."""

import re
from pathlib import Path

import pytest

from config.local import service
from marketplace import texts
from marketplace.models import Connection, SyncRun
from marketplace.source import client
from marketplace.source.errors import ExportPending, MarketplaceError

ROOT = Path(__file__).resolve().parents[2]
# The current edition of the API's documentation. Its paths begin with /rest/3.
EDITION = "https://developer.atlassian.com/platform/marketplace/rest/v4/"


def read(path: str) -> str:
    return (ROOT / path).read_text()


def test_the_current_edition_of_the_api_is_cited_and_no_other() -> None:
    assert EDITION in read("docs/licenses.md")
    assert client.__doc__ is not None and EDITION in client.__doc__
    files = [*ROOT.glob("docs/*.md"), *ROOT.glob("marketplace/**/*.py")]
    cited = {
        edition
        for path in files
        for edition in re.findall(r"marketplace/rest/(v[0-9]+)", path.read_text())
    }
    assert cited == {"v4"}


@pytest.mark.parametrize(
    "advice",
    ["least access", "*View sales reports*", "*View all other reports*", "token with scopes"],
)
def test_the_account_to_connect_with_is_described(advice: str) -> None:
    section = read("docs/admin.md").split("## Marketplace connection")[1].split("\n## ")[0]
    assert advice in section


@pytest.mark.parametrize(
    "metric",
    [
        "eds_license_problem",
        "eds_license_last_success_timestamp_seconds",
        'eds_license_connections{state="failing"}',
        'eds_license_connections{state="requires_authentication"}',
        "eds_license_token_expires_timestamp_seconds",
    ],
)
def test_an_alert_tells_of_licenses(metric: str) -> None:
    alerts = [line for line in read("docs/alerts.md").splitlines() if line.startswith("| ")]
    assert [line for line in alerts if metric in line]


def test_several_connections_sync_at_once_with_the_units_too() -> None:
    unit = read("deploy/eds-syncs.service")
    assert f"--concurrency {service.SYNC_CONCURRENCY}" in unit


def test_each_sentence_of_a_failure_says_what_to_do() -> None:
    """Those that no story of ``test_what_people_see`` ends with."""
    for sentence in (texts.UNDECRYPTABLE, texts.SYNC_CRASHED, texts.SYNC_TIMED_OUT, texts.API_GONE):
        assert re.search(r"\b(Add|See|contact|Update)\b", sentence)


def test_each_state_and_each_failure_has_its_sentence() -> None:
    paused = set(Connection.State) - {Connection.State.ACTIVE}
    assert {state.value for state in paused} <= texts.HEALTH.keys()
    assert texts.RESULTS.keys() == set(SyncRun.State)
    # A run waits for an export that is pending, and never ends with it.
    assert texts.FAILURES.keys() == set(MarketplaceError.__subclasses__()) - {ExportPending}
