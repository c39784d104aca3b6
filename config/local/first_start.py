"""The first start: creates an admin login and a product, and says how to try them."""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError
from django.db import transaction

from config.setup.provisioning import create_product
from core import durable_files
from engagement.models import Product
from ingestion.snippets import build_snippets

ADMIN_LOGIN = "admin"
PRODUCT_NAME = "My product"


@dataclass(frozen=True)
class FirstStart:
    """The credentials that the first start created, as ``credentials.json`` keeps them."""

    credentials: dict[str, Any]

    def instructions(self, address: str) -> str:
        """Return the credentials and curl commands for a person, for a service at *address*."""
        lines = build_snippets(address, self.credentials["ingestion_key"])[0].code
        return INSTRUCTIONS.format(address=address, lines=lines, **self.credentials)

    def announcement(self, data_dir: Path, address: str, *, with_secrets: bool) -> list[str]:
        """Return what to print after the first start, with or without the secrets."""
        path = credentials_path(data_dir)
        if with_secrets:
            return [self.instructions(address), f"All of this is kept in {path}."]
        return [CREATED_MESSAGE, f"The password, the key, and the token are in {path}."]


def credentials_path(data_dir: Path) -> Path:
    return data_dir / "credentials.json"


def greeting(
    data_dir: Path, created: FirstStart | None, address: str, *, with_secrets: bool
) -> str:
    """Return what to print when the service answers at *address*."""
    path = credentials_path(data_dir)
    lines = []
    if created is not None:
        lines += created.announcement(data_dir, address, with_secrets=with_secrets)
    lines += [f"Running at {address}, admin at {address}/admin/. Ctrl-C stops it."]
    if created is None and path.exists():
        lines += [f"The credentials of the first start are in {path}."]
    return "\n".join(lines)


def create_first_start(data_dir: Path) -> FirstStart | None:
    """Create the login and the product. Return None if this is not the first start.

    The credentials are on disk before they are committed. A crash in between leaves a file that the
    next start overwrites, and never credentials that nobody knows.
    """
    users = get_user_model()._default_manager
    with transaction.atomic():
        if users.exists() or Product.objects.exists():
            return None
        password = secrets.token_urlsafe(12)
        get_user_model().objects.create_superuser(ADMIN_LOGIN, password=password)
        credentials = {"admin_login": ADMIN_LOGIN, "admin_password": password}
        credentials |= create_product(PRODUCT_NAME).as_dict()  # type: ignore[arg-type]
        _save(credentials_path(data_dir), credentials)
    return FirstStart(credentials)


def _save(path: Path, credentials: dict[str, Any]) -> None:
    """Write the file so that only its owner can read it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable_files.replace(path, json.dumps(credentials, indent=2) + "\n")
    except OSError as error:
        raise CommandError(
            f"{path} cannot be written ({error.strerror}); set EDS_DATA_DIR to a folder that can."
        ) from error


CREATED_MESSAGE = (
    "This is the first start. It created an admin login and a product with its credentials."
)
INSTRUCTIONS = """
This is the first start. It created an admin login and a product with its credentials:

  admin          {address}/admin/   login {admin_login}   password {admin_password}
  ingestion key  {ingestion_key}
  read token     {api_token}
  workspace id   {workspace_id}

Send some data:

{lines}
Read the scores a few seconds later:

curl -H 'Authorization: Bearer {api_token}' \\
  '{address}/v2/accounts?workspace_id={workspace_id}'
curl -H 'Authorization: Bearer {api_token}' \\
  '{address}/v2/users?workspace_id={workspace_id}&match_type=email&match_value=ada@example.com'
"""
