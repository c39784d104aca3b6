"""The entered details are verified: each problem is a message at its field."""

from typing import Any

import pytest
from pytest_django import Settings

from harness.marketplace.faults import (
    AnyFault,
    ConnectionDrop,
    Endpoint,
    ErrorStatus,
    HtmlPage,
    NextLink,
    UnexpectedJson,
)
from harness.marketplace.server import Simulator
from harness.marketplace.vendor import create_vendor
from marketplace import connecting, texts
from marketplace.connecting import DetailsRejected
from tests.marketplace.connections import CHECKED, details_of, fast_client
from tests.start.running import free_port

OWNER = create_vendor()
BOARD, PAGE, QUEUE = OWNER.apps
ALL_APPS = "\n".join(f"{app.name}: {app.product_id}" for app in OWNER.apps)

REJECTED = (
    "The marketplace rejects this user name and API token. Check both. The token may have expired "
    "or been revoked. The account’s password does not work: create an API token in the account’s "
    f"security settings. {texts.WITHOUT_SCOPES}"
)
PERMISSION = (
    "Ask an administrator of the vendor for it, or use an account that has it. "
    f"{texts.WITHOUT_SCOPES}"
)
NO_VENDOR_ID = (
    "Enter the vendor ID: the number at the end of the vendor management page’s URL, or the URL "
    "itself."
)


def refusal(simulator: Simulator, **changed: str) -> tuple[str | None, str]:
    """The field and the message of the rejection."""
    with pytest.raises(DetailsRejected) as error:
        connecting.verify_details(details_of(simulator, **changed), fast_client)
    return error.value.field, error.value.message


def test_correct_details_give_the_developer_id_and_the_app(simulator: Simulator) -> None:
    verified = connecting.verify_details(details_of(simulator), fast_client)
    assert verified.developer_id == OWNER.developer_id
    assert verified.app.product_id == BOARD.product_id
    assert verified.app.name == BOARD.name


@pytest.mark.parametrize("app", OWNER.apps, ids=lambda app: app.key)
def test_every_app_of_the_vendor_is_found_even_private_or_on_later_pages(
    simulator: Simulator, app: Any
) -> None:
    for entered in (app.product_id, app.product_id.upper(), f" {app.product_id} "):
        verified = connecting.verify_details(details_of(simulator, product_id=entered), fast_client)
        assert verified.app.product_id == app.product_id


@pytest.mark.parametrize(
    "entered",
    [
        "1234567",
        " 1234567 ",
        "https://marketplace.atlassian.com/manage/vendors/1234567",
        "https://marketplace.atlassian.com/manage/vendors/1234567/",
        "https://marketplace.atlassian.com/manage/vendors/1234567?tab=apps#top",
    ],
)
def test_the_vendor_id_is_a_number_or_a_url_that_ends_in_it(
    simulator: Simulator, entered: str
) -> None:
    verified = connecting.verify_details(details_of(simulator, vendor_id=entered), fast_client)
    assert verified.details.vendor_id == "1234567"


@pytest.mark.parametrize(
    "entered",
    ["", "Lumenworks", "https://marketplace.atlassian.com/manage/vendors/", "12 34", "1e5"],
)
def test_an_invalid_vendor_id_causes_no_request(simulator: Simulator, entered: str) -> None:
    assert refusal(simulator, vendor_id=entered) == ("vendor_id", NO_VENDOR_ID)
    assert not simulator.requests


@pytest.mark.parametrize("changed", [{"user_name": "you@example.com"}, {"api_token": "password"}])
def test_a_wrong_user_or_token(simulator: Simulator, changed: dict[str, str]) -> None:
    assert refusal(simulator, **changed) == ("api_token", REJECTED)


def test_an_unknown_vendor(simulator: Simulator) -> None:
    assert refusal(simulator, vendor_id="7654321") == (
        "vendor_id",
        "The marketplace has no vendor 7654321. The vendor ID is the number at the end of the "
        "vendor management page’s URL.",
    )


@pytest.mark.parametrize(
    ("endpoint", "what"),
    [
        (Endpoint.LISTING, "the list of the vendor’s apps"),
        (Endpoint.LICENSES, "the vendor’s license reports"),
    ],
)
def test_an_account_without_a_permission(
    simulator: Simulator, endpoint: Endpoint, what: str
) -> None:
    simulator.add_faults(ErrorStatus(on=endpoint, status=403))
    sentence = f"This account lacks the permission to view {what}. {PERMISSION}"
    assert refusal(simulator) == ("user_name", sentence)


def test_a_vendor_that_the_account_may_not_view_may_be_a_mistyped_one(simulator: Simulator) -> None:
    simulator.add_faults(ErrorStatus(on=Endpoint.VENDOR, status=403))
    field, sentence = refusal(simulator)
    assert field == "vendor_id"
    assert sentence.startswith("This account may not view the vendor 1234567. Check the number")


@pytest.mark.parametrize("endpoint", CHECKED)
def test_an_address_that_is_gone_is_nobodys_mistake(
    simulator: Simulator, endpoint: Endpoint
) -> None:
    simulator.add_faults(ErrorStatus(on=endpoint, status=410))
    assert refusal(simulator) == (None, texts.API_GONE)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_unavailable_report_does_not_refuse_the_details(
    simulator: Simulator, status: int
) -> None:
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=status))
    verified = connecting.verify_details(details_of(simulator), fast_client)
    assert verified.app.product_id == BOARD.product_id
    assert verified.report_problem.startswith(
        f"The license report is unavailable at the moment: it returned {status}. The sync is"
    )


@pytest.mark.parametrize(
    ("entered", "sentence"),
    [
        (
            "9d71209f-f2d4-5522-8742-716b66c6574f",
            f"The vendor has no app with this product ID. Its apps:\n{ALL_APPS}",
        ),
        ("nonsense", f"The vendor has no app with this product ID. Its apps:\n{ALL_APPS}"),
        (
            PAGE.key,
            f"This is the app key of {PAGE.name}. Its product ID is {PAGE.product_id}.",
        ),
        (
            QUEUE.name.upper(),
            f"This is the name of {QUEUE.name}. Its product ID is {QUEUE.product_id}.",
        ),
    ],
)
def test_a_product_id_of_no_app_of_the_vendor(
    simulator: Simulator, entered: str, sentence: str
) -> None:
    assert refusal(simulator, product_id=entered) == ("product_id", sentence)


def test_a_vendor_without_apps(simulator: Simulator) -> None:
    simulator.add_faults(UnexpectedJson(on=Endpoint.LISTING, value={"items": [], "links": {}}))
    assert refusal(simulator) == (
        "product_id",
        "This account cannot see any app of the vendor. Use an account that can.",
    )


def test_the_message_lists_all_apps(simulator: Simulator) -> None:
    items = [{"productId": f"{number:032x}", "appName": f"App {number}"} for number in range(60)]
    simulator.add_faults(UnexpectedJson(on=Endpoint.LISTING, value={"items": items}))
    field, sentence = refusal(simulator)
    assert field == "product_id"
    assert [f"App {number}: {number:032x}" for number in range(60)] == sentence.splitlines()[1:]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (ErrorStatus(status=503), "it returned 503"),
        (ErrorStatus(status=429, retry_after="3600"), "it returned 429"),
        (ConnectionDrop(), "the connection failed"),
    ],
)
def test_an_unavailable_marketplace(simulator: Simulator, fault: AnyFault, reason: str) -> None:
    simulator.add_faults(fault)
    assert refusal(simulator) == (
        None,
        f"The marketplace is unavailable: {reason}. Nothing was saved. Try again in a few "
        f"minutes. If this persists, check that this server can reach {simulator.url}.",
    )


def test_a_refused_connection(simulator: Simulator, settings: Settings) -> None:
    settings.MARKETPLACE_API_URL = f"http://127.0.0.1:{free_port()}"
    field, sentence = refusal(simulator)
    assert field is None
    assert sentence.startswith("The marketplace is unavailable: the connection failed.")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (HtmlPage(), "it is a web page"),
        (UnexpectedJson(value=[]), "its JSON has an unexpected structure"),
        (
            NextLink(on=Endpoint.LISTING, link="//evil.example"),
            "its link to the next page leads elsewhere",
        ),
        (ErrorStatus(on=Endpoint.LISTING, status=404), "the list of the vendor’s apps is missing"),
        (
            ErrorStatus(on=Endpoint.LICENSES, status=404),
            "the license reports of the app are missing",
        ),
    ],
)
def test_an_unusable_response(simulator: Simulator, fault: AnyFault, reason: str) -> None:
    simulator.add_faults(fault)
    assert refusal(simulator) == (
        None,
        f"The marketplace’s response cannot be used: {reason}. Nothing was saved. Check that "
        f"{simulator.url} is the marketplace’s URL, and try again later.",
    )


def test_the_repr_of_details_hides_the_token(simulator: Simulator) -> None:
    details = details_of(simulator)
    assert details.api_token not in repr(details)
    assert details.api_token not in repr(connecting.verify_details(details, fast_client))
