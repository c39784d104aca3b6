"""Files reach a folder and an S3 server, and nothing but these."""

import io
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from pytest_django import Settings

from engagement.models import Product
from exports import files
from exports.models import ExportRun, ScheduledExport, Table
from exports.stores import StoreError, verify
from exports.stores.folders import FolderStore
from exports.stores.s3 import S3Store, signed_headers
from exports.tables import TABLES
from tests.cases import examples
from tests.exports.conftest import Bucket
from tests.exports.rows import an_export, read_csv, run_now, write_due
from tests.exports.test_runs import some_history
from tests.notifications.rows import Clock

Kind = ScheduledExport.StoreKind


# --- A folder -------------------------------------------------------------------------------


def test_a_run_writes_into_the_products_own_folder(
    acme: Product, folder: Path, clock: Clock
) -> None:
    some_history(acme)
    export = an_export(acme, folder="team/warehouse")
    verify(export)
    assert not list((folder / f"product-{acme.pk}/team/warehouse").iterdir())
    run = run_now(export, clock)
    assert (run.state, run.error) == (ExportRun.State.DONE, "")
    place = folder / f"product-{acme.pk}/team/warehouse" / run.folder
    assert sorted(path.name for path in place.iterdir()) == [
        "accounts-00001.csv.gz",
        "manifest.json",
        "users-00001.csv.gz",
    ]
    assert len(read_csv((place / "accounts-00001.csv.gz").read_bytes())) == 3


def test_nothing_is_written_outside_of_the_operators_folder(
    acme: Product, folder: Path, tmp_path: Path, settings: Settings
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "product-1").mkdir()
    (folder / "product-1" / "link").symlink_to(outside)
    for name in ("../../outside", "link", "link/deeper", str(outside)):
        with pytest.raises(StoreError, match="leads out"):
            FolderStore(1, name).put("file", b"content")
    assert not list(outside.iterdir())
    (folder / "product-1" / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"The folder cannot be written to: [A-Z].*\."):
        FolderStore(1, "file").put("run/part", b"content")
    settings.EXPORT_FOLDER = ""
    with pytest.raises(StoreError, match="EDS_EXPORT_FOLDER"):
        FolderStore(1, "any")


# --- S3 -------------------------------------------------------------------------------------


def s3_export(product: Product, place: Bucket, **fields: Any) -> ScheduledExport:
    values = {
        "store_kind": Kind.S3,
        "endpoint": place.endpoint,
        "bucket": place.name,
        "folder": "eds/ä b+c",
        "access_key_id": place.access_key_id,
        "secret_access_key": place.secret_access_key,
        **fields,
    }
    return an_export(product, **values)


def test_an_s3_server_takes_the_files_and_refuses_other_keys(
    acme: Product, bucket: Bucket, clock: Clock
) -> None:
    """The server verifies signatures, and the user may write and delete only."""
    some_history(acme)
    export = s3_export(acme, bucket, format=ScheduledExport.Format.PARQUET)
    verify(export)
    run = run_now(export, clock)
    assert (run.state, run.error) == (ExportRun.State.DONE, "")
    # The reader is somebody else.
    from moto.backends import get_backend

    keys = get_backend("s3")["123456789012"]["aws"].buckets["warehouse"].keys
    names = sorted(name for name in keys if name.startswith(f"eds/ä b+c/{run.folder}/"))
    assert [name.rpartition("/")[2] for name in names] == [
        "accounts-00001.parquet",
        "manifest.json",
        "users-00001.parquet",
    ]
    assert len(keys) == 3, "The test file is deleted."
    table = parquet.read_table(io.BytesIO(keys[names[0]].value))
    assert table.column_names == [column.name for column in TABLES[Table.ACCOUNTS].columns]
    assert [str(kind) for kind in table.schema.types[:6:5]] == ["int64", "double"]
    assert str(table.schema.field("created_at").type) == "timestamp[us, tz=UTC]"
    assert table.num_rows == run.files.get(table=Table.ACCOUNTS).rows == 3
    for fields, text in (
        ({"secret_access_key": "wrong"}, "403 SignatureDoesNotMatch. Check the keys"),
        ({"access_key_id": "AKIAUNKNOWN"}, "403 InvalidAccessKeyId"),
        ({"bucket": "elsewhere"}, "403 AccessDenied"),
    ):
        with pytest.raises(StoreError, match=text):
            verify(s3_export(acme, bucket, name=text, **fields))


def test_no_request_goes_to_a_private_address(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("10.1.0.0/16")]
    for endpoint, address in (
        ("https://169.254.169.254", "169.254.169.254"),
        ("https://store.example", "10.2.0.1"),
        ("https://store.example", "::ffff:127.0.0.1"),
        ("http://store.example", "93.184.216.34"),
        ("file:///etc", "93.184.216.34"),
        ("https://user:secret@store.example", "93.184.216.34"),
    ):
        store = S3Store(
            endpoint=endpoint,
            region="",
            bucket="b",
            prefix="",
            resolve=lambda host, port, address=address: [address],  # type: ignore[misc]
            access_key_id="AKIA1",
            secret_access_key="planted",
        )
        with pytest.raises(StoreError, match=r"private or reserved|https://|user name"):
            store.put("file", b"")


@examples(30)
@given(
    method=st.sampled_from(["PUT", "DELETE"]),
    path=st.text("abcXYZ019-_.~/", min_size=1, max_size=30),
    body=st.binary(max_size=50),
    port=st.sampled_from(["", ":9000", ":443"]),
    region=st.sampled_from(["us-east-1", "eu-central-1", "auto"]),
    type=st.sampled_from(["", "application/json"]),
)
def test_signatures_are_those_of_aws_own_library(
    method: str, path: str, body: bytes, port: str, region: str, type: str
) -> None:
    url = f"https://store.example{port}/bucket/{path}"
    headers = {"Content-Type": type} if type else {}
    now = datetime.now(UTC)
    own = signed_headers(method, url, body, headers, ("AKIA1", "se/cret"), region, now)
    request = AWSRequest(method, url, data=body, headers=dict(headers))
    signer = S3SigV4Auth(Credentials("AKIA1", "se/cret"), "s3", region)
    request.context["timestamp"] = own["x-amz-date"]
    request.headers["X-Amz-Content-SHA256"] = signer.payload(request)
    request.headers["X-Amz-Date"] = own["x-amz-date"]
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    assert own["Authorization"].endswith(f"Signature={signature}"), canonical


# --- Formats --------------------------------------------------------------------------------


def test_without_pyarrow_parquet_fails_with_what_to_do(
    acme: Product, folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_history(acme)
    monkeypatch.setattr(files, "has_parquet", lambda: False)
    run = run_now(an_export(acme, format=ScheduledExport.Format.PARQUET), clock)
    assert "requirements-parquet.txt" in run.error and "CSV" in run.error


def test_a_workspace_without_scores_waits(acme: Product, folder: Path, clock: Clock) -> None:
    run = run_now(an_export(acme), clock)
    assert "no scores yet" in run.error
    some_history(acme)
    clock.step(61)
    write_due(clock)
    run.refresh_from_db()
    assert run.state == ExportRun.State.DONE
