"""Where files go: a folder of the server, or a bucket."""

from typing import Protocol

from engagement.outbound.addresses import Resolver
from exports.models import ScheduledExport
from exports.stores.errors import StoreError
from exports.stores.folders import FolderStore
from exports.stores.s3 import S3Store

__all__ = ["Store", "StoreError", "open_store", "verify"]

_TEST = b"The service writes this file to see that it may, and deletes it at once.\n"


class Store(Protocol):
    """Both methods raise StoreError."""

    def put(self, name: str, content: bytes, type: str = ...) -> None:
        """Write the file, or replace it. Nobody sees a part of it."""

    def delete(self, name: str) -> None: ...


def open_store(export: ScheduledExport, resolve: Resolver | None = None) -> Store:
    """The export's store. The export has its credentials loaded."""
    if export.store_kind == ScheduledExport.StoreKind.FOLDER:
        return FolderStore(export.product_id, export.folder)
    return S3Store(
        endpoint=export.endpoint,
        region=export.region,
        bucket=export.bucket,
        prefix=export.folder,
        access_key_id=export.access_key_id,
        secret_access_key=export.secret_access_key,
        resolve=resolve,
    )


def verify(store: Store, export_id: int) -> None:
    """Write a file and delete it. Raises StoreError."""
    name = f"eds-test-{export_id}.txt"
    store.put(name, _TEST, "text/plain")
    store.delete(name)
