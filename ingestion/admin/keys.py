"""Ingestion keys in the admin, and how to send a first event with one."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from access.admin.credentials import CredentialAdmin, CredentialInline
from access.admin.products import Section
from access.pages.scoping import request_access
from access.trail.models_followed import follow
from engagement.models import Credential, Product
from ingestion.models import ForgetKey, IngestionKey
from ingestion.snippets import KEY_PLACEHOLDER, build_snippets

follow(
    IngestionKey,
    "ingestion key",
    ("name", "owner__username", "purpose", "expires_at", "revoked_at"),
)

follow(
    ForgetKey,
    "forget key",
    ("name", "owner__username", "purpose", "expires_at", "revoked_at"),
)

FIRST_KEY_NAME = "first"
VALIDATE_PATH = "/v2/validate/track"
SNIPPETS_TEMPLATE = "admin/ingestion/snippets.html"


def first_event_section(request: HttpRequest, product: Product) -> Section:
    """How to send a first event, with the name of the product's newest live key."""
    live = IngestionKey.live(timezone.now())
    keys = IngestionKey.objects.filter(live, product=product).defer("secret")
    key = keys.order_by("pk").last()
    may_manage = product.pk in request_access(request).managed
    add = f"{reverse('admin:ingestion_ingestionkey_add')}?product={product.pk}"
    context = {
        "snippets": build_snippets(request.build_absolute_uri("/")),
        "placeholder": KEY_PLACEHOLDER,
        "key": key,
        "key_url": key and reverse("admin:ingestion_ingestionkey_change", args=[key.pk]),
        "may_reveal": may_manage,
        "add_url": may_manage and add,
        "validate_path": VALIDATE_PATH,
        "log_url": reverse("admin:ingestion_ingestionlog_change", args=[product.pk]),
    }
    # Without a key, this is what to do first.
    return Section(SNIPPETS_TEMPLATE, context, "keys" if key else "general")


class IngestionKeyAdmin(CredentialAdmin):
    empty_text = "There are no ingestion keys yet. Applications send their data with one."
    usage = "Use it in the applications that send this product's data."
    change_form_template = "admin/engagement/product.html"

    def usage_context(
        self, request: HttpRequest, credential: Credential, secret: str | None
    ) -> dict[str, Any]:
        if credential.revoked_at is not None:
            return {}
        context = {
            "snippets": build_snippets(request.build_absolute_uri("/"), secret or KEY_PLACEHOLDER),
            "placeholder": KEY_PLACEHOLDER,
            "shows_key": secret is not None,
            "validate_path": VALIDATE_PATH,
            "log_url": reverse("admin:ingestion_ingestionlog_change", args=[credential.product_id]),
        }
        return {"sections": [Section(SNIPPETS_TEMPLATE, context)]}

    def create_first_key(self, request: HttpRequest, product: Product) -> str:
        """Create a product's first key. Returns the URL of the page that shows it once."""
        key = IngestionKey.create(product, FIRST_KEY_NAME)
        self.log_addition(request, key, "Created with the product.")
        self._show_on_next_page(request, key)
        return self.view_url("change", key)


def create_first_key(request: HttpRequest, product: Product) -> str:
    """Create a product's first key. Returns the URL of the page that shows it once."""
    page = admin.site.get_model_admin(IngestionKey)
    assert isinstance(page, IngestionKeyAdmin)
    return page.create_first_key(request, product)


class IngestionKeyInline(CredentialInline):
    model = IngestionKey


class ForgetKeyAdmin(CredentialAdmin):
    empty_text = "There are no forget keys. A program that erases people on request needs one."
    usage = "Use it in the program that erases people on request. It cannot send or read data."


class ForgetKeyInline(CredentialInline):
    model = ForgetKey
