"""A list accepts the filters that it offers and rejects all others."""

from collections.abc import Iterator
from itertools import cycle

import pytest
from django.contrib import admin
from django.contrib.auth.models import User as AdminUser
from django.db import models, transaction
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.urls import reverse

from access.pages.lookups import INVALID_FILTER_MESSAGE
from ingestion.models import DropReason
from tests.admin.rows import Rows

# Lookups, and values that PostgreSQL or Python cannot take.
LOOKUPS = {
    "": "x",
    "__exact": "\0",
    "__regex": "(",
    "__startswith": "a",
    "__in": "9" * 30,
    "__year": "9" * 5000,
    "__isnull": "x",
}
BY_HAND = (
    {"dropped_at__year": "9" * 20},
    {"dropped_at__year": "9999"},
    {"dropped_at__year": "2026", "dropped_at__month": "13"},
    {"dropped_at__month": "x"},
    {"product__id__exact": "9" * 30},
    {"product__id__exact": "\0"},
    {"product__isnull": "x"},
    {"workspace__id__exact": "x"},
    {"lookback_days__exact": "x"},
    {"is_staff__exact": "x"},
    {"groups__id__exact": "x"},
    {"user__password__startswith": "p"},
    {"product__members__password__startswith": "p"},
    {"p": "9" * 30},
    {"o": "9.9"},
    {"q": "\0"},
    {"scope__exact": "\0"},
    {"reason__exact": "\0"},
    {"state__exact": "\0"},
    {"workspace": "\0"},
    {"workspace": "9" * 30},
    {"segment": "9" * 30},
    {"state": "\0"},
)
SECRETS = ("secret", "digest", "key_digest", "payload", "password", "api_token", "trait_stamps")


def lists() -> Iterator[tuple[type[models.Model], str]]:
    for model in admin.site._registry:
        opts = model._meta
        yield model, reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")


def made_up(model: type[models.Model], lookups: int) -> Iterator[dict[str, str]]:
    # Each column is tried with some lookups, and each lookup with many columns.
    columns = ["nothing", *(field.name for field in model._meta.get_fields())]
    each = list(LOOKUPS.items())
    for number, column in enumerate(columns):
        for lookup, value in (each[(lookups * number + n) % len(each)] for n in range(lookups)):
            yield {f"{column}{lookup}": value}
    yield from BY_HAND


@pytest.mark.slow
def test_no_made_up_filter_is_an_error_of_the_server(
    acme_rows: Rows, root: Client, member: Client, reader: Client
) -> None:
    """Each login in turn tries one, and a superuser those on lists that the others may not see."""
    turns = cycle([root, member, reader])

    def ask(person: Client) -> int:
        person.raise_request_exception = False
        before = transaction.savepoint()
        answer = person.get(address, parameters)
        transaction.savepoint_rollback(before)
        code: int = answer.status_code
        return code

    faults = []
    for model, address in lists():
        for parameters in made_up(model, lookups=2):
            status = ask(next(turns))
            if status in (403, 404):
                status = ask(root)
            if status not in (200, 302, 403, 404):
                faults.append((address, parameters, status))
    assert not faults


def test_no_text_that_a_person_types_is_an_error_of_an_autocomplete(root: Client) -> None:
    member = {"app_label": "engagement", "model_name": "productmember", "field_name": "user"}
    for term in ("\0", "(", "%", "x" * 5000):
        answer = root.get(reverse("admin:autocomplete"), {**member, "term": term})
        assert answer.status_code == 200, term


@pytest.mark.parametrize("who", ["root", "member", "reader"])
def test_nobody_looks_up_what_no_page_shows(
    who: str, acme_rows: Rows, request: pytest.FixtureRequest
) -> None:
    """Letter by letter, a lookup would reveal a secret to anyone who sees the list."""
    person: Client = request.getfixturevalue(who)
    looked_at = 0
    for model, address in lists():
        columns = {field.name for field in model._meta.get_fields()} & set(SECRETS)
        for lookup in (f"{column}{end}" for column in columns for end in LOOKUPS):
            answer = person.get(address, {lookup: "a"})
            assert answer.status_code in (302, 403, 404), (address, lookup)
            looked_at += 1
    assert looked_at > 50


def test_no_list_allows_a_look_up_of_a_secret(acme_rows: Rows, rf: RequestFactory) -> None:
    request: HttpRequest = rf.get("/")
    request.user = AdminUser.objects.create_superuser("root")
    for model, model_admin in admin.site._registry.items():
        for field in model._meta.get_fields():
            if field.name in SECRETS:
                assert not model_admin.lookup_allowed(f"{field.name}__startswith", "a", request), (
                    field
                )


def test_a_refused_filter_says_so_above_the_whole_list(root: Client, acme_rows: Rows) -> None:
    address = reverse("admin:ingestion_ingestionkey_changelist")
    page = root.get(address, {"digest__startswith": "a"}, follow=True).content.decode()
    assert INVALID_FILTER_MESSAGE in page and acme_rows.key.name in page


def test_what_lists_and_links_offer_still_filters(root: Client, acme_rows: Rows) -> None:
    product = acme_rows.product.pk
    for name, parameters in (
        ("ingestion_droppedmessage", {"reason__exact": DropReason.DUPLICATE.value}),
        ("ingestion_droppedmessage", {"product__id__exact": product}),
        ("ingestion_droppedmessage", {"product__isnull": "True"}),
        ("ingestion_droppedmessage", {"dropped_at__year": 2026, "dropped_at__month": 3}),
        ("ingestion_droppedmessage", {"q": "acme-user"}),
        ("ingestion_quarantinedmessage", {"product__id__exact": product}),
        ("ingestion_ingestionkey", {"state": "live"}),
        ("engagement_account", {"workspace": acme_rows.workspace.pk}),
        ("engagement_workspace", {"lookback_days__exact": 7}),
        ("engagement_segment", {"workspace__id__exact": acme_rows.workspace.pk}),
        ("engagement_segment", {"scope__exact": "user"}),
        ("marketplace_connection", {"state__exact": "active"}),
        ("auth_user", {"is_superuser__exact": 1}),
    ):
        answer = root.get(reverse(f"admin:{name}_changelist"), parameters)
        assert (
            answer.status_code == 200 and INVALID_FILTER_MESSAGE not in answer.content.decode()
        ), (name, parameters)
