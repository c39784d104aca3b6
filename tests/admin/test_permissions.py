"""Every URL of the admin, requested by every kind of login.

The URLs come from the URL resolver. A new page must be listed here with its audience.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import cache
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User as AdminUser
from django.db import transaction
from django.template.response import TemplateResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone
from pytest_django import Settings

from access.logins import invites, second_factors
from engagement.models import Product, ProductMember
from tests.admin.conftest import logged_in
from tests.admin.rows import Rows, fill


class For(Enum):
    """Who may open a URL."""

    ANYBODY = "anyone, logged in or not"
    STAFF = "everyone who can log in"
    MEMBERS = "the product's members"
    MANAGERS = "the product's managers"
    WORKERS = "those who may work on the product's accounts"
    CONNECTORS = "those who may manage the product's connection"
    SUPERUSERS = "superusers"


OF_NO_ROW = {
    "index": For.STAFF,
    "search": For.STAFF,
    "preferences": For.STAFF,
    "login": For.ANYBODY,
    "logout": For.ANYBODY,
    "second_factor": For.ANYBODY,
    "single_sign_on": For.ANYBODY,
    "single_sign_on_callback": For.ANYBODY,
    "account": For.STAFF,
    "account_add_app": For.STAFF,
    "account_add_passkey": For.STAFF,
    "account_recovery_codes": For.STAFF,
    "account_remove_factor": For.STAFF,
    "account_end_session": For.STAFF,
    "password_change": For.STAFF,
    "password_change_done": For.STAFF,
    "autocomplete": For.STAFF,
    "jsi18n": For.ANYBODY,
    "view_on_site": For.STAFF,
    "app_list": For.STAFF,
    "licenses": For.MEMBERS,
    "licenses_matching": For.MEMBERS,
    "licenses_reconciliation": For.MEMBERS,
}
OF_SUPERUSERS = ("auth_", "jobs")
# By the end of the URL name.
VIEWS = {
    "changelist": For.MEMBERS,
    "change": For.MEMBERS,
    "history": For.MEMBERS,
    "add": For.MANAGERS,
    "delete": For.MANAGERS,
}
SUBJECT_LISTS = ("engagement_user_changelist", "engagement_account_changelist")
OWN_VIEWS = {
    "engagement_product_delete_all": For.SUPERUSERS,
    "engagement_product_add": For.SUPERUSERS,
    # It redirects to delete_all.
    "engagement_product_delete": For.SUPERUSERS,
    "engagement_product_invite": For.MANAGERS,
    "engagement_product_work": For.MANAGERS,
    "engagement_product_revoke_invite": For.MANAGERS,
    "engagement_product_dismiss_checklist": For.MANAGERS,
    "engagement_product_leaked_secret": For.MANAGERS,
    "engagement_trailentry_changelist": For.MANAGERS,
    "engagement_trailentry_change": For.MANAGERS,
    "engagement_trailentry_history": For.MANAGERS,
    "engagement_trailentry_export": For.MANAGERS,
    "engagement_segment_preview": For.MANAGERS,
    "engagement_segment_values": For.MANAGERS,
    "engagement_feature_usage": For.MEMBERS,
    "engagement_workspace_preview": For.MANAGERS,
    "engagement_workspace_effect": For.MANAGERS,
    "engagement_workspace_progress": For.MEMBERS,
    "engagement_workspace_backtest": For.MEMBERS,
    "engagement_workspace_forecast": For.MEMBERS,
    "engagement_workspace_trends": For.MEMBERS,
    "engagement_workspace_chances": For.MEMBERS,
    "engagement_workspace_cohorts": For.MEMBERS,
    "engagement_workspace_alarms": For.MEMBERS,
    "engagement_workspace_compute_cohorts": For.MANAGERS,
    "engagement_workspace_activation": For.MEMBERS,
    "engagement_workspace_edit_activation": For.MANAGERS,
    "engagement_workspace_activation_effect": For.MANAGERS,
    "engagement_workspace_compute_backtest": For.MANAGERS,
    "engagement_workspace_suggest_weights": For.MANAGERS,
    "engagement_workspace_use_weights": For.MANAGERS,
    "engagement_user_forget": For.MANAGERS,
    "engagement_user_part": For.SUPERUSERS,
    "engagement_account_forget": For.MANAGERS,
    "engagement_user_export": For.MEMBERS,
    "engagement_account_export": For.MEMBERS,
    "engagement_user_line": For.MEMBERS,
    "engagement_user_timeline": For.MEMBERS,
    "engagement_account_timeline": For.MEMBERS,
    "engagement_user_latest": For.MEMBERS,
    "engagement_account_latest": For.MEMBERS,
    "engagement_account_line": For.MEMBERS,
    "engagement_user_save_view": For.MEMBERS,
    "engagement_account_save_view": For.MEMBERS,
    "engagement_user_delete_view": For.MEMBERS,
    "engagement_account_delete_view": For.MEMBERS,
    "engagement_account_score_history": For.MEMBERS,
    "engagement_account_activity": For.MEMBERS,
    "engagement_account_license_move": For.MANAGERS,
    "engagement_account_work": For.WORKERS,
    "engagement_account_change_work": For.MEMBERS,
    "ingestion_ingestionkey_reveal": For.MANAGERS,
    "ingestion_ingestionkey_rotate": For.MANAGERS,
    "ingestion_ingestionkey_revoke": For.MANAGERS,
    "ingestion_forgetkey_reveal": For.MANAGERS,
    "ingestion_forgetkey_rotate": For.MANAGERS,
    "ingestion_forgetkey_revoke": For.MANAGERS,
    "readapi_apitoken_reveal": For.MANAGERS,
    "readapi_apitoken_rotate": For.MANAGERS,
    "readapi_apitoken_revoke": For.MANAGERS,
    "ingestion_quarantinedmessage_try_again": For.MANAGERS,
    "ingestion_ingestionlog_messages": For.MEMBERS,
    "marketplace_connection_add": For.CONNECTORS,
    "marketplace_connection_delete": For.CONNECTORS,
    "marketplace_connection_details": For.CONNECTORS,
    "marketplace_connection_test": For.CONNECTORS,
    "marketplace_connection_sync": For.CONNECTORS,
    "marketplace_connection_full_sync": For.CONNECTORS,
    "marketplace_connection_disconnect": For.CONNECTORS,
    "marketplace_connection_seats": For.CONNECTORS,
    "marketplace_connection_read_history": For.CONNECTORS,
    "marketplace_connection_status": For.MEMBERS,
    "notifications_destination_test": For.MANAGERS,
    "notifications_destination_rotate": For.MANAGERS,
    "notifications_destination_end_rotation": For.MANAGERS,
    "notifications_destination_pause": For.MANAGERS,
    # Members make digests of their own.
    "notifications_digest_add": For.MEMBERS,
    "notifications_digest_preview": For.MEMBERS,
    "notifications_outboxmessage_send_again": For.MANAGERS,
    **{
        f"destinations_recorddestination_{name}": For.CONNECTORS
        for name in (
            *("add", "delete", "start", "pause", "dry_run", "send_now", "read_fields", "links"),
        )
    },
    "destinations_recordrun_retry": For.CONNECTORS,
    "exports_scheduledexport_run_now": For.MANAGERS,
    "exports_scheduledexport_write_everything": For.MANAGERS,
    "exports_scheduledexport_verify": For.MANAGERS,
    "exports_scheduledexport_stop": For.MANAGERS,
}
FOR_POSTS = (
    *("_save_view", "_delete_view", "_license_move", "_read_history", "_change_work"),
    *("account_recovery_codes", "account_remove_factor", "account_end_session"),
)
# The status for a login that may not open a page, or may not know that it exists.
REFUSED = {302, 403, 404}


@dataclass(frozen=True)
class Address:
    name: str
    url: str
    whom: For
    of_a_row: bool


def each_pattern(patterns: Any) -> Iterator[URLPattern]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from each_pattern(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            yield pattern


def admin_resolvers() -> list[URLResolver]:
    return [
        pattern
        for pattern in get_resolver().url_patterns
        if isinstance(pattern, URLResolver) and pattern.app_name == "admin"
    ]


def admin_names() -> list[tuple[str, bool]]:
    """The name of each named URL, and whether it is about one row."""
    (admin,) = admin_resolvers()
    return [
        (pattern.name, bool(pattern.pattern.converters))
        for pattern in each_pattern(admin.url_patterns)
        if pattern.name
    ]


def whom(name: str) -> For:
    if name in OF_NO_ROW:
        return OF_NO_ROW[name]
    if name in OWN_VIEWS:
        return OWN_VIEWS[name]
    if name.startswith(OF_SUPERUSERS):
        return For.SUPERUSERS
    view = name.rsplit("_", 1)[1]
    assert view in VIEWS, f"Say in OWN_VIEWS whom the page {name} is for."
    return VIEWS[view]


def addresses(rows: Rows) -> list[Address]:
    """Each URL of the admin, for the rows of one product where it is about a row."""
    pages = dict(rows.pages())
    all_addresses = []
    for name, of_a_row in admin_names():
        if name == "view_on_site":
            arguments: list[Any] = [1, 1]
        elif name == "app_list":
            arguments = ["engagement"]
        elif name == "account_remove_factor":
            arguments = [0]
        elif not of_a_row:
            arguments = []
        elif name.startswith(OF_SUPERUSERS):
            arguments = [AdminUser.objects.get(username="root").pk]
        else:
            model = next(model_name for model_name in pages if name.startswith(f"{model_name}_"))
            arguments = [pages[model]]
        url = reverse(f"admin:{name}", args=arguments)
        if name.endswith(("user_export", "account_export")) or name in SUBJECT_LISTS:
            # Without a workspace they lead to the first one.
            url += f"?workspace={rows.workspace.pk}"
        elif name.startswith("licenses"):
            url += f"?product={rows.product.pk}"
        all_addresses.append(Address(name, url, whom(name), of_a_row))
    return all_addresses


@pytest.fixture
def unrendered_posts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer a POST with its status and an empty page: writing pages takes half of the time."""
    rendered = TemplateResponse.rendered_content
    monkeypatch.setattr(
        TemplateResponse,
        "rendered_content",
        property(lambda page: "" if page._request.method == "POST" else rendered.__get__(page)),
    )


def status(
    who: Client, method: str, url: str, unseen: str = "", parameters: dict[str, Any] | None = None
) -> int:
    """The status of the response. Its changes are rolled back."""
    before = transaction.savepoint()
    try:
        answer = getattr(who, method)(url, parameters)
        # A download is built while it is read.
        content = answer.getvalue()
    finally:
        transaction.savepoint_rollback(before)
    if unseen:
        # A random token may contain any word.
        text = re.sub(r"\w{40,}", "", content.decode())
        assert unseen not in text.lower(), url
    code: int = answer.status_code
    return code


def member_of(product: Product, name: str, **membership: Any) -> Client:
    """A login without any of Django's permissions: only memberships count."""
    person = AdminUser.objects.create_user(name, is_staff=True)
    ProductMember.objects.create(product=product, user=person, **membership)
    return logged_in(person)


VIEWER, MANAGER = ProductMember.Role.VIEWER, ProductMember.Role.MANAGER


@pytest.fixture
def rows(root: Client, acme: Product, settings: Settings) -> Rows:
    # Nothing listens there, so testing a connection fails at once.
    settings.MARKETPLACE_API_URL = "http://127.0.0.1:9"
    return fill(acme)


@dataclass(frozen=True)
class Role:
    """What a membership allows."""

    membership: dict[str, Any]
    allowed: set[For]


ROLES = {
    "manager": Role(
        {"role": MANAGER},
        {For.STAFF, For.MEMBERS, For.MANAGERS, For.CONNECTORS, For.WORKERS},
    ),
    "viewer": Role({"role": VIEWER}, {For.STAFF, For.MEMBERS}),
    "viewer with the connection": Role(
        {"role": VIEWER, "may_manage_connections": True}, {For.STAFF, For.MEMBERS, For.CONNECTORS}
    ),
    "viewer who works on accounts": Role(
        {"role": VIEWER, "may_work_on_accounts": True}, {For.STAFF, For.MEMBERS, For.WORKERS}
    ),
}


def may(rows: Rows, who: Client, of_root: Callable[[str, str], int], allowed: set[For]) -> None:
    """*who* gets a superuser's status if the URL is for one of *allowed*, else a refusal."""
    for address in addresses(rows):
        if address.whom is For.ANYBODY:
            continue
        for method in ("get", "post"):
            code = status(who, method, address.url)
            case = (sorted(group.name for group in allowed), address.name, method, code)
            if address.whom not in allowed:
                # A page for POST only may return 405 first.
                assert code in REFUSED | ({405} if method == "get" else set()), case
            elif not (method == "post" and code == 403 and changes_a_row(address, allowed)):
                assert code == of_root(method, address.url), case


def changes_a_row(address: Address, allowed: set[For]) -> bool:
    """Whether a readable page is also a form that this login may not submit."""
    return address.name.endswith("_change") and For.MANAGERS not in allowed


def planted_secrets(rows: Rows, root: Client) -> list[str]:
    """Everything that is stored to sign in, send, read, or reach others with."""
    person = AdminUser.objects.get(username="root")
    person.set_password("correct horse battery staple")
    person.save()
    root.force_login(person)
    secret = second_factors.new_app_secret()
    second_factors.add_app(person, "Phone", secret, 0, timezone.now())
    _, invited = invites.create(person, timezone.now() + timedelta(days=1), product=rows.product)
    destination = rows.subscription.destination
    return [
        *(rows.key.secret, rows.token.secret, invited, person.password, secret),
        *second_factors.new_recovery_codes(person),
        *(str(rows.connection.api_token), rows.export_run.export.secret_access_key),
        *(destination.address, destination.signing_secrets.removeprefix("whsec_")),
        *(str(root.session.session_key), settings.SECRET_KEY, *map(str, settings.ENCRYPTION_KEYS)),
    ]


@pytest.mark.slow
def test_superusers_may_open_every_page_and_no_cache_keeps_it(rows: Rows, root: Client) -> None:
    opened = 0
    planted = planted_secrets(rows, root)
    for address in addresses(rows):
        before = transaction.savepoint()
        answer = root.get(address.url)
        # A download is built while it is read.
        content = answer.getvalue().decode()
        assert [secret for secret in planted if secret in content] == [], address
        transaction.savepoint_rollback(before)
        if address.whom in (For.MEMBERS, For.STAFF) and address.name not in (
            "view_on_site",
            "app_list",
        ):
            is_for_posts = address.name.endswith(FOR_POSTS)
            expected = 403 if address.name == "autocomplete" else 405 if is_for_posts else 200
            if address.name == "account_add_passkey":
                # Without HTTPS, browsers make none.
                expected = 302
            assert answer.status_code == expected, address
            opened += 1
        # Not the admin's script translations, which are the same for everyone.
        if answer.status_code == 200 and address.name != "jsi18n":
            assert "no-store" in answer.headers["Cache-Control"], address
    assert opened > 30


def test_a_token_or_a_key_opens_no_page(rows: Rows) -> None:
    for secret in (rows.token.secret, rows.key.secret):
        client = Client(headers={"authorization": f"Bearer {secret}"})
        for address in addresses(rows):
            if address.whom is not For.ANYBODY:
                assert client.get(address.url).status_code in (302, 405), address


@pytest.mark.slow
@pytest.mark.usefixtures("unrendered_posts")
def test_each_role_may_do_what_it_is_for(rows: Rows, root: Client) -> None:
    @cache
    def of_root(method: str, url: str) -> int:
        return status(root, method, url)

    for name, role in ROLES.items():
        member = member_of(rows.product, name, **role.membership)
        may(rows, member, of_root, role.allowed)


def test_a_viewer_submits_no_form(rows: Rows) -> None:
    viewer = member_of(rows.product, "vera", role=VIEWER)
    for name in ("engagement_product", "engagement_workspace", "ingestion_ingestionkey"):
        form = reverse(f"admin:{name}_change", args=[dict(rows.pages())[name]])
        assert status(viewer, "post", form) == 403


@pytest.mark.slow
@pytest.mark.whole
def test_a_member_of_another_product_meets_nothing_of_this_one(
    rows: Rows, root: Client, globex: Product
) -> None:
    stranger = member_of(globex, "sam", role=MANAGER)
    for address in addresses(rows):
        for method in ("get", "post"):
            code = status(stranger, method, address.url, unseen="acme")
            if address.of_a_row and address.whom is not For.STAFF:
                assert code in REFUSED | ({405} if method == "get" else set()), address


@pytest.mark.slow
def test_nothing_of_this_product_is_taken_from_a_member_of_another_one_as_a_filter(
    rows: Rows, globex: Product
) -> None:
    """On every page with a parameter for a workspace, a segment, a product, or one of its rows."""
    stranger = member_of(globex, "sam", role=MANAGER)
    parameters = {
        "workspace": rows.workspace.pk,
        "segment": rows.segment.pk,
        "like": rows.segment.pk,
        "product": rows.product.pk,
        "product__id__exact": rows.product.pk,
    }
    one_by_one = [{name: value} for name, value in parameters.items()]
    for address in addresses(rows):
        if address.whom is For.ANYBODY or address.of_a_row:
            continue
        # A page without forms, or without one for this login, reads no parameter of a POST.
        takes_posts = status(stranger, "post", address.url) not in (403, 405)
        # The pages for superusers refuse a member before they read anything.
        for chosen_parameters in (
            [parameters] if address.whom is For.SUPERUSERS else [*one_by_one, parameters]
        ):
            for method in ("get", "post") if takes_posts else ("get",):
                code = status(
                    stranger, method, address.url, unseen="acme", parameters=chosen_parameters
                )
                assert code in REFUSED | {200, 405}, (address.name, chosen_parameters, code)


def test_no_address_escapes_for_want_of_a_name() -> None:
    """Only Django's two: one redirects from a row to its page, one returns 404 for all others."""
    (admin,) = admin_resolvers()
    nameless = {
        str(pattern.pattern) for pattern in each_pattern(admin.url_patterns) if not pattern.name
    }
    assert nameless == {"<path:object_id>/", "(?P<url>.*)$"}


def test_the_matrix_has_the_pages_that_the_admin_is_known_for() -> None:
    names = {name for name, _ in admin_names()}
    assert names >= {
        "index",
        "engagement_account_changelist",
        "engagement_account_change",
        "engagement_account_export",
        "engagement_user_changelist",
        "engagement_user_change",
        "engagement_user_export",
        "engagement_workspace_preview",
        "engagement_workspace_effect",
        "engagement_workspace_progress",
        "engagement_segment_preview",
        "ingestion_ingestionlog_change",
        "marketplace_connection_status",
    }


@pytest.mark.slow
def test_staff_without_a_product_may_open_the_overview_and_their_password(
    rows: Rows, root: Client
) -> None:
    nobody = logged_in(AdminUser.objects.create_user("nick", is_staff=True))
    for address in addresses(rows):
        if address.whom in (For.ANYBODY, For.STAFF):
            continue
        for method in ("get", "post"):
            code = status(nobody, method, address.url, unseen="acme")
            assert code in REFUSED | ({405} if method == "get" else set()), (address, code)
    assert status(nobody, "get", reverse("admin:index"), unseen="acme") == 200


@pytest.mark.parametrize("logged_in_as_no_staff", [False, True])
def test_everyone_else_is_redirected_to_the_login(
    rows: Rows, root: Client, logged_in_as_no_staff: bool
) -> None:
    anonymous = Client()
    if logged_in_as_no_staff:
        person = AdminUser.objects.create_user("norm")
        ProductMember.objects.create(product=rows.product, user=person)
        anonymous.force_login(person)
    for address in addresses(rows):
        if address.whom is For.ANYBODY:
            continue
        answer = anonymous.get(address.url)
        assert answer.status_code == 302, address
        assert answer.headers["Location"].startswith(reverse("admin:login")), address


def test_an_address_of_nothing_says_nothing(rows: Rows, globex: Product) -> None:
    stranger = member_of(globex, "sam")
    for url in ("/admin/nothing/", f"/admin/engagement/product/{rows.product.pk}/"):
        assert status(stranger, "get", url, unseen="acme") in REFUSED
