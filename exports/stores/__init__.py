"""Where rows go: files to a folder of the server or to a bucket, or into a PostgreSQL."""

from typing import Protocol

from exports.models import ScheduledExport
from exports.stores.errors import StoreError
from exports.stores.folders import FolderStore
from exports.stores.postgres import PostgresStore
from exports.stores.s3 import PUT_SECONDS, S3Store

__all__ = ["Store", "StoreError", "open_store", "verify"]

# A page waits for the test.
_TEST_SECONDS = 10.0
_TEST = b"The service writes this file to see that it may, and deletes it at once.\n"


class Store(Protocol):
    """Both methods raise StoreError."""

    def put(self, name: str, content: bytes, type: str = ...) -> None:
        """Write the file, or replace it. Nobody sees a part of it."""

    def delete(self, name: str) -> None: ...


def open_store(export: ScheduledExport, seconds: float = PUT_SECONDS) -> Store:
    """The export's store. The export has its credentials loaded. Writing a file is cut off after
    these *seconds*."""
    if export.store_kind == ScheduledExport.StoreKind.FOLDER:
        return FolderStore(export.product_id, export.folder)
    if export.store_kind == ScheduledExport.StoreKind.POSTGRES:
        return _mirror(export)
    return S3Store(
        endpoint=export.endpoint,
        region=export.region,
        bucket=export.bucket,
        prefix=export.folder,
        access_key_id=export.access_key_id,
        secret_access_key=export.secret_access_key,
        put_seconds=seconds,
    )


def _mirror(export: ScheduledExport) -> PostgresStore:
    return PostgresStore(
        host=export.host,
        port=export.port,
        database=export.database,
        schema=export.schema,
        user=export.user_name,
        password=export.password or "",
        tls=export.tls,
        ca=export.ca,
        # Ids are the same in other installations.
        origin=f"{export.pk} since {export.created_at:%Y-%m-%dT%H:%M:%S.%f}",
    )


def verify(export: ScheduledExport) -> None:
    """Write a file into the export's store and delete it, or try the database. Raises
    StoreError."""
    if export.store_kind == ScheduledExport.StoreKind.POSTGRES:
        _mirror(export).check(_TEST_SECONDS)
        return
    store, name = open_store(export, seconds=_TEST_SECONDS), f"eds-test-{export.pk}.txt"
    store.put(name, _TEST, "text/plain")
    store.delete(name)
