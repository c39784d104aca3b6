"""A copy of the backup folder in an S3-compatible store.

boto3 reads its own settings: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and, for stores
of others, AWS_ENDPOINT_URL.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import CommandError

from config.local import backups

SCHEME = "s3://"
PARTIAL = ".partial"


class Bucket:
    """The objects below a prefix of a bucket, named as the files of the folder."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if not url.startswith(SCHEME) or not parts.netloc:
            raise CommandError(f"{url} must look like s3://bucket or s3://bucket/prefix.")
        try:
            self._client: Any = import_module("boto3").client("s3")
            self._errors = import_module("botocore.exceptions")
        except ModuleNotFoundError:
            raise CommandError(
                "copies in a store need boto3; run `pip install -r requirements-backup.txt`."
            ) from None
        self._bucket = parts.netloc
        self._prefix = f"{parts.path.strip('/')}/" if parts.path.strip("/") else ""

    def upload(self, root: Path) -> int:
        """Copy the folder's files that the store lacks. Return how many.

        Summaries come last, so a base backup is listed once it is complete. Objects stay when
        their files are deleted: the store's own lifecycle rules delete old ones.
        """
        names = [str(path.relative_to(root)) for path in sorted(root.glob("*/*/*/*"))]
        # A backup that is being taken has a folder with a dot.
        names = [name for name in names if "/." not in name]
        names.sort(key=lambda name: name.endswith(backups.SUMMARY))
        count: int = self._guarded(lambda: self._upload(root, names))
        return count

    def _upload(self, root: Path, names: list[str]) -> int:
        stored = self._sizes()
        missing = [name for name in names if stored.get(name) != (root / name).stat().st_size]
        for name in missing:
            self._client.upload_file(str(root / name), self._bucket, self._prefix + name)
        for name in stored.keys() - names:
            # The segment is complete by now.
            if name.endswith(PARTIAL) and name.removesuffix(PARTIAL) in names:
                self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)
        return len(missing)

    def download_summaries(self, root: Path) -> None:
        """Copy the summaries of all base backups into the folder."""
        self._download(root, lambda name: name.endswith(f"/{backups.SUMMARY}"))

    def download(self, root: Path, backup: backups.BaseBackup) -> None:
        """Copy what the restore of this base backup needs into the folder."""
        base, wal = f"{backup.cluster}/base/{backup.name}/", f"{backup.cluster}/wal/"

        def is_needed(name: str) -> bool:
            file = name.rpartition("/")[2]
            is_later = backup.needs_segment(file) or ".history" in file
            return name.startswith(base) or (name.startswith(wal) and is_later)

        self._download(root, is_needed)

    def _download(self, root: Path, is_needed: Callable[[str], bool]) -> None:
        def copy() -> None:
            for name in filter(is_needed, self._sizes()):
                (root / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._client.download_file(self._bucket, self._prefix + name, str(root / name))

        self._guarded(copy)

    def _sizes(self) -> dict[str, int]:
        """Return the size of each object by its name below the prefix."""
        pages = self._client.get_paginator("list_objects_v2")
        return {
            item["Key"].removeprefix(self._prefix): item["Size"]
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix)
            for item in page.get("Contents", [])
        }

    def _guarded(self, act: Callable[[], Any]) -> Any:
        errors = self._errors
        boto_errors = import_module("boto3.exceptions")
        try:
            return act()
        except errors.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "an error")
            reason = f"the store answered {code}; check the bucket and what the keys may do"
        except (errors.BotoCoreError, boto_errors.Boto3Error) as error:
            reason = f"the store cannot be used ({type(error).__name__}); check AWS_ENDPOINT_URL"
        raise CommandError(f"{SCHEME}{self._bucket}: {reason}.")
