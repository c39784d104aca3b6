"""Creates products that are ready to use, with a workspace, an ingestion key, and a read token."""

import json
from dataclasses import asdict, dataclass

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.core.validators import ProhibitNullCharactersValidator
from django.db import transaction

from access.trail import entries
from engagement.models import Product
from ingestion.models import IngestionKey
from readapi.models import ApiToken

CREDENTIAL_NAME = "first"


@dataclass(frozen=True)
class ProvisionedProduct:
    """The credentials and ids for sending to a product and reading from it."""

    product_id: int
    workspace_id: int
    ingestion_key: str
    api_token: str

    def as_dict(self) -> dict[str, int | str]:
        return asdict(self)

    def as_json(self) -> str:
        return json.dumps(self.as_dict())

    def as_text(self) -> str:
        """Return a line for each value, for people."""
        lines = [f"  {label + ':':<15}{getattr(self, key)}" for key, label in _LABELS.items()]
        return "\n".join(lines)


_LABELS = {
    "product_id": "product id",
    "workspace_id": "workspace id",
    "ingestion_key": "ingestion key",
    "api_token": "read token",
}


def create_product(name: str) -> ProvisionedProduct:
    """Create a product with its Default workspace, a key, and a token.

    Raise CommandError if the name cannot be used.
    """
    name = _validated(name)
    with transaction.atomic():
        product = Product.create_with_workspace(name)
        note = "Created with a key and a token."
        entries.record_command(entries.Action.ADDED, "product", product.pk, name=name, note=note)
        return ProvisionedProduct(
            product_id=product.pk,
            workspace_id=product.workspaces.get().pk,
            ingestion_key=IngestionKey.create(product, CREDENTIAL_NAME).secret,
            api_token=ApiToken.create(product, CREDENTIAL_NAME).secret,
        )


def _validated(name: str) -> str:
    field = Product._meta.get_field("name")
    try:
        ProhibitNullCharactersValidator()(name)
        return str(field.clean(name.strip(), None))
    except ValidationError as error:
        reason = " ".join(error.messages)
        raise CommandError(f"a product cannot have this name: {reason}") from None
