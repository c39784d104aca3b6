"""No record, however broken, stops its neighbors or later pages."""

import json
import math
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engagement.models import Product
from harness.marketplace.feed import Feed
from harness.marketplace.records import UNREADABLE
from harness.marketplace.server import Simulator
from marketplace.licenses import conversion as reading
from marketplace.licenses import record_fields
from marketplace.licenses.conversion import InvalidRecord, ParsedLicense, SkippedRecord
from marketplace.models import Connection
from marketplace.source import pages
from tests.cases import each, examples, leaves_no_rows
from tests.marketplace.connections import (
    HOUR,
    NOON,
    Kind,
    RunState,
    accounts,
    connect,
    counters,
    licenses,
    sync_now,
    work,
)


@pytest.mark.django_db
@pytest.mark.parametrize("record", UNREADABLE, ids=lambda record: record[24:31].decode())
def test_an_unreadable_record_is_counted_with_its_reason_and_the_others_are_imported(
    acme: Product, simulator: Simulator, connection: Connection, record: bytes
) -> None:
    simulator.feed.add(*licenses(simulator, 70))
    simulator.feed.add(record, at=10)
    run = work(connection)
    assert run.state == RunState.SUCCEEDED
    assert counters(run) == {"seen": 71, "imported": 70, "failed": 1, "accounts_created": 70}
    assert len(accounts(acme)) == 70
    (listed,) = run.failed_records.all()
    assert listed.reason == UNREADABLE[record]
    assert listed.license_key == record.split(b'"')[3].decode()


@pytest.mark.django_db
def test_only_the_key_of_an_unreadable_record_is_stored(
    simulator: Simulator, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    person = b'{"email":"planted@example.com","name":"Planted \\ud83d"}'
    simulator.feed.add(b'{"licenseId":"L-1","contactDetails":{"technicalContact":' + person + b"}}")
    run = work(connection)
    (listed,) = run.failed_records.all()
    assert listed.license_key == "L-1"
    assert "lanted" not in f"{listed.reason}{caplog.text}"


# --- Whatever the record --------------------------------------------------------------------

TEXTS = st.text(st.characters(codec=None), max_size=30) | st.sampled_from(
    ["", "\0", "x" * 10_000, "\ud800", "null", "RTBF", "2026-13-45", "9" * 400, '"]},{"[', "\\"]
)
NUMBERS = (
    st.integers()
    | st.floats()
    | st.sampled_from([10**400, -(10**400), 2**63, 2**64, -(2**63) - 1, math.inf, math.nan])
)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("appEntitlementNumber", "licenseId", "cloudId", "productId", "tier", "lastUpdated"),
        *("status", "licenseType", "maintenanceEndDate", "contactDetails", "attribution"),
        *("installedOnSandbox", "unheardOf"),
    ]
)
NESTED = st.builds(
    lambda depth, open_: (open_ * depth + "1" + {"[": "]", '{"a":': "}"}[open_] * depth).encode(),
    st.sampled_from([10, 500, 1500, 2000]),
    st.sampled_from(["[", '{"a":']),
)


def encoded(value: Any) -> bytes:
    """JSON as a careless server writes it, with NaN and lone surrogates."""
    return json.dumps(value).encode()


def with_depths(fields: dict[str, Any], deep: bytes) -> bytes:
    return encoded({**fields, "x": 0})[:-2] + deep + b"}"


RECORDS = (
    VALUES.map(encoded)
    | NESTED
    | st.builds(with_depths, st.dictionaries(FIELDS, VALUES, max_size=4), NESTED)
    | st.dictionaries(FIELDS, VALUES, max_size=6).map(encoded)
    | st.dictionaries(FIELDS, VALUES, max_size=6).map(
        lambda fields: encoded({"cloudId": "odd", "licenseId": "L-1", **fields})
    )
)


@settings(deadline=None)
@given(record=RECORDS)
def test_any_record_is_imported_skipped_or_invalid(record: bytes) -> None:
    assert isinstance(
        reading.parse_record(record, "prod-1"), ParsedLicense | SkippedRecord | InvalidRecord
    )


@settings(deadline=None)
@given(record=st.dictionaries(FIELDS, VALUES, max_size=8).map(encoded))
def test_a_record_of_the_documented_form_is_read_faster_and_the_same(record: bytes) -> None:
    fields = record_fields.decode_usual(record)
    with suppress(msgspec.MsgspecError):
        decoded = msgspec.json.decode(record)
        assert fields is None or fields == record_fields.read_fields(decoded)
        if fields is not None:
            assert list(fields) == sorted(fields)


GOOD = b'{"licenseId":"L-GOOD","cloudId":"good","x":["]",{"y":"\\"}"}]}'


@settings(deadline=None)
@given(records=st.lists(RECORDS | st.just(GOOD), max_size=5), has_more=st.booleans())
def test_a_page_is_split_into_its_records(records: list[bytes], has_more: bool) -> None:
    links = b'"_links":{"next":{"href":"/licenses"}}' if has_more else b'"_links":{}'
    listed = b'"licenses":[' + b" , ".join(records) + b"]"
    for body in (b"{" + links + b"," + listed + b"}", b" {" + listed + b" , " + links + b"}\n"):
        page = pages.decode_page(body)
        assert page.has_more == has_more
        assert [bytes(record).strip() for record in page.records] == records


@each(
    "body",
    [
        b'{"licenses":[{"a":"\\ud83d"}',
        b'{"licenses":[{"a":"\\ud83d"},{"b":"',
        b'{"licenses":{"a":"\\ud83d"}}',
        b'{"items":[{"a":"\\ud83d"}]}',
        b'["\\ud83d"]',
        b'{"licenses":[{"a":"\\ud83d"}],"_links":{"next":"\\ud83d"}}',
        b"[" * (pages.MAX_TOKENS + 1),
        b'{"licenses":[' + b"[" * (pages.MAX_TOKENS + 1),
    ],
)
def test_a_body_that_is_no_page_is_rejected(body: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        pages.decode_page(body)


@pytest.mark.django_db
@examples(5)
@given(record=RECORDS)
@leaves_no_rows
def test_no_record_stops_its_neighbors_or_later_pages(
    db: None, simulator: Simulator, record: bytes
) -> None:
    product = Product.create_with_workspace("Initech")
    good = [msgspec.json.encode(record) for record in licenses(simulator, 60)]
    simulator.feed = Feed([*good[:10], record, *good[10:]])
    connection = connect(product, simulator)
    for turn in range(2):
        run = work(connection)
        assert run.state == RunState.SUCCEEDED
        assert run.seen == 61
        assert turn or accounts(product) >= {
            record["cloudId"] for record in licenses(simulator, 60)
        }
        sync_now(connection, NOON + HOUR, Kind.FULL)
