"""An export is split while it arrives, and ends at a deadline."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.marketplace.faults import Endpoint, Trickle
from harness.marketplace.records import UNREADABLE
from harness.marketplace.server import Simulator
from marketplace.source import client, exports
from marketplace.source.client import Credentials, LicenseQuery
from marketplace.source.errors import MarketplaceUnavailable, UnexpectedResponse
from marketplace.source.exports import ExportState, RecordSplitter
from tests.cases import each
from tests.marketplace.connections import FAST_RETRY_POLICY, licenses

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text('"\\[]{},: aé🚀', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


def split(body: bytes, size: int) -> list[bytes]:
    splitter = RecordSplitter()
    records = [
        bytes(record)
        for start in range(0, len(body), size)
        for record in splitter.feed(body[start : start + size])
    ]
    splitter.end()
    return records


@given(
    values=st.lists(VALUES | st.fixed_dictionaries({"},{": VALUES}), max_size=4),
    size=st.integers(1, 40),
    layout=st.sampled_from(
        [{"indent": 2}, {"separators": (", ", ":")}, {"separators": (",", ":")}]
    ),
    is_ascii=st.booleans(),
)
def test_a_list_is_split_wherever_its_chunks_end(
    values: list[Any], size: int, layout: dict[str, Any], is_ascii: bool
) -> None:
    body = json.dumps(values, ensure_ascii=is_ascii, **layout).encode()
    assert [json.loads(record) for record in split(body, size)] == values


@pytest.mark.parametrize("separator", [b", ", b","])
@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_unreadable_records_cost_no_others(size: int, separator: bytes) -> None:
    records = [b'{"a":1}', b'{"b":1}', *UNREADABLE, b'{"c":[{},{}]}', b'{"d":"},{"}', b'{"e":2}']
    assert split(b" [" + separator.join(records) + b"]\n", size) == records


def test_readable_records_cost_no_look_at_each_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [b'{"number":%d}' % number for number in range(1000)]
    splitter = RecordSplitter()
    assert splitter.feed(b"[") == []
    read_token = Mock(wraps=splitter._read_token)
    monkeypatch.setattr(splitter, "_read_token", read_token)
    body = b",".join(records)
    assert len([*splitter.feed(body[:5000]), *splitter.feed(body[5000:] + b"]")]) == 1000
    splitter.end()
    assert read_token.call_count < 10


@each(
    "body",
    [b"", b"[", b'[{"a":1}', b'[{"a":1},', b'{"licenses":[]}', b"<html>", b"[] []", b'["a'],
)
def test_a_body_that_is_no_complete_list_is_rejected(body: bytes) -> None:
    for size in (1, 1000):
        with pytest.raises(UnexpectedResponse):
            split(body, size)


def test_a_record_that_never_ends_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MAX_RECORD_BYTES", 1000)
    with pytest.raises(UnexpectedResponse, match="one of its records is too large"):
        split(b"[" + b"[" * 5000, 64)


@pytest.mark.parametrize(
    ("body", "export_id", "state"),
    [
        (b'{"export":{"id":"e-1","status":"COMPLETED"}}', "e-1", ExportState.COMPLETED),
        (b'{"export":{"id":7,"status":"IN_PROGRESS"}}', "7", ExportState.PENDING),
        (b'{"export":{"status":"FAILED"}}', "", ExportState.FAILED),
        (
            b'{"_links":{"status":{"href":"/licenses/async/export/a%2Fb/status?x=1"}}}',
            "a/b",
            ExportState.PENDING,
        ),
    ],
)
def test_the_id_and_the_state_of_an_export(body: bytes, export_id: str, state: Any) -> None:
    response = exports.decode_response(body)
    assert (response.export_id(), response.state()) == (export_id, state)


@pytest.mark.parametrize("headers", [True, False])
def test_an_export_that_drips_ends_at_its_deadline(simulator: Simulator, headers: bool) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    policy = replace(FAST_RETRY_POLICY, request_timeout=0.5)
    vendor = simulator.vendor
    marketplace = client.create_client(Credentials(vendor.user_name, vendor.token), policy)
    query = LicenseQuery(vendor.app.product_id)
    export_id = marketplace.start_export(vendor.developer_id, query)
    assert marketplace.export_state(vendor.developer_id, export_id) == ExportState.COMPLETED
    records = list(marketplace.export_records(vendor.developer_id, export_id))
    assert len(records) == 60
    simulator.add_faults(Trickle(on=Endpoint.EXPORT_FILE, seconds=0.2, headers=headers))
    with pytest.raises(MarketplaceUnavailable, match="takes too long"):
        list(marketplace.export_records(vendor.developer_id, export_id))
