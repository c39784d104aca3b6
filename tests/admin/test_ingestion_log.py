"""The ingestion log's pages: their texts, who sees them, and how many queries they take."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from engagement.messages import Identify
from engagement.models import Product
from ingestion.log.hours import start_of_hour
from ingestion.log.search import MessageState
from ingestion.models import (
    DropCount,
    DroppedMessage,
    DropReason,
    HourCount,
    IngestionKey,
    RecentMessage,
    RefusedCount,
    RefusedRequest,
)
from tests.admin.rows import Rows
from tests.cases import each
from tests.engagement.history import identify, track
from tests.pipeline.test_ingestion_log import SECONDS
from tests.pipeline.waiting import drain, wait

LIST = "/admin/ingestion/ingestionlog/"


def log(who: Client, product: Product, **parameters: str) -> str:
    page = reverse("admin:ingestion_ingestionlog_change", args=[product.pk])
    answer = who.get(page, parameters, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def results(html: str) -> str:
    """The text of the table of messages."""
    table = html.split('<table class="eds-log"')[1].split(">", 1)[1].split("</table>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", table).split())


def dropped_of_nobody(number: int = 9000, hint: str = "edk_wrong") -> None:
    now = timezone.now()
    DroppedMessage.objects.create(
        id=number,
        reason=DropReason.UNKNOWN_KEY,
        key_hint=hint,
        kind="track",
        user_external_id="stray",
        received_at=now,
        dropped_at=now,
    )
    DropCount.objects.get_or_create(
        day=now.date(), reason=DropReason.UNKNOWN_KEY, product=None, defaults={"count": 1}
    )


def test_it_leads_from_the_product_to_the_log_and_back(member: Client, acme: Product) -> None:
    product = reverse("admin:engagement_product_change", args=[acme.pk])
    address = reverse("admin:ingestion_ingestionlog_change", args=[acme.pk])
    assert f'href="{address}"' in member.get(product).content.decode()
    assert f'href="{product}"' in log(member, acme)
    assert f'href="{address}"' in member.get(LIST).content.decode()


def test_an_identify_without_traits_is_listed(member: Client, acme: Product, acme_key: str) -> None:
    assert "No messages yet." in log(member, acme)
    now = timezone.now()
    wait(acme_key, identify("ada"), received_at=now)
    drain(now)
    page = log(member, acme)
    assert "No messages yet" not in page
    assert "identify · user ada" in results(page) and "Sent no traits." in results(page)
    RecentMessage.objects.all().delete()
    assert "1 message was recorded in the last 24 hours, but none is listed." in log(member, acme)


def test_the_newest_messages_are_chosen_by_outcome_and_kind(
    member: Client, acme: Product, acme_key: str
) -> None:
    wait(acme_key, identify("ada"), track("ada"), track("bob"), received_at=timezone.now())
    drain()
    assert "track" not in results(log(member, acme, kind="identify"))
    assert "user ada" not in results(log(member, acme, outcome="waiting"))
    page = log(member, acme, outcome="recorded", kind="track")
    assert "user bob" not in results(page) and "user ada" in results(page)
    # Each choice keeps the other one, and the page's own refresh keeps both.
    assert 'href="?outcome=dropped&amp;kind=track"' in page
    assert 'href="?outcome=recorded">All</a>' in page
    assert 'href="?outcome=recorded&amp;kind=track">Refresh</a>' in page
    assert "No such messages." in log(member, acme, outcome="refused")


@each("query", [{"outcome": "nonsense"}, {"kind": "tracks"}, {"reason": "x"}])
def test_a_mistyped_choice_says_so(
    member: Client, acme: Product, acme_key: str, query: dict[str, str]
) -> None:
    wait(acme_key, identify("ada"), track("bob"), received_at=timezone.now())
    page = log(member, acme, **query, q="bob")
    assert "This filter is not available, so the list is not filtered." in page
    assert "Messages that mention “bob”" in page
    assert "not available" not in log(member, acme, outcome="", kind="")


def test_a_page_that_refreshes_itself_asks_for_the_messages_alone(
    member: Client, acme: Product, acme_key: str, django_assert_max_num_queries: Any
) -> None:
    wait(acme_key, identify("ada"), Identify("bob", SECONDS), received_at=timezone.now())
    drain()
    url = reverse("admin:ingestion_ingestionlog_messages", args=[acme.pk])
    assert f'data-live="{url}?kind=identify"' in log(member, acme, kind="identify")
    with django_assert_max_num_queries(25):
        html = member.get(url, {"kind": "identify"}).content.decode()
    assert html.strip().startswith("<table") and "<html" not in html
    # A doubtful time has the color of a warning.
    assert "eds-state-doubtful_time" in html
    styles = Path("ingestion/static/ingestion/log.css").read_text()
    for state in MessageState:
        assert f".eds-state-{state.name.lower()}" in styles


def test_refused_requests_are_counted_and_shown(
    member: Client, acme: Product, globex: Product
) -> None:
    now = timezone.now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    RefusedCount.objects.create(product=acme, hour=hour, code="missing_field", count=1234)
    RefusedCount.objects.create(product=globex, hour=hour, code="invalid_json", count=1)
    RefusedRequest.objects.create(
        product=acme,
        received_at=now,
        endpoint="/v2/track",
        kind="track",
        status=400,
        code="missing_field",
        message="userId is required and must be a non-empty string.",
        user_agent="sdk <b>1</b>",
    )
    page = log(member, acme, outcome="refused")
    assert "<code>missing_field</code>" in page and "1234" in page.replace(",", "")
    assert "invalid_json" not in page and "<b>1" not in page
    assert "400 missing_field: userId is required" in results(page)


def test_a_message_has_its_state_reason_and_remedy(
    member: Client, acme: Product, acme_key: str
) -> None:
    messages = identify("ada"), track("ada", "opened"), track("bob", "opened")
    wait(acme_key, *messages, received_at=timezone.now())
    drain()
    listed_messages = results(log(member, acme, q="opened"))
    assert "Recorded Counts on 2026-09-24 for the user and no account." in listed_messages
    assert "Waiting for its user to be identified" in listed_messages
    assert "Send an identify with the userId “bob”." in listed_messages


def test_a_quarantined_message_is_tried_again_from_here_by_managers(
    member: Client, reader: Client, acme_rows: Rows
) -> None:
    again = reverse("admin:ingestion_quarantinedmessage_try_again", args=[acme_rows.quarantined.pk])
    assert f'action="{again}"' in log(member, acme_rows.product, q="acme-user")
    html = log(reader, acme_rows.product, q="acme-user")
    assert "In quarantine" in html and "Try again" not in results(html).replace("Try it", "")
    assert f'action="{again}"' not in html


def test_a_searched_user_is_linked(member: Client, acme: Product, acme_key: str) -> None:
    wait(acme_key, identify("ada", name="Ada"), track("bob"))
    drain()
    assert re.search(
        r'<a href="/admin/engagement/user/\d+/change/">Ada</a>', log(member, acme, q="ada")
    )
    assert "has not been identified yet" in log(member, acme, q="bob")


def test_nothing_found_says_what_to_look_at(member: Client, acme: Product) -> None:
    live = IngestionKey.create(acme, "web")
    html = log(member, acme, q="nobody")
    assert "No message mentions “nobody”" in html
    assert f"{live.hint}…" in html and "never used" in html and live.secret not in html


def test_a_product_without_a_key_is_offered_one(
    member: Client, reader: Client, acme: Product
) -> None:
    add = f"{reverse('admin:ingestion_ingestionkey_add')}?product={acme.pk}"
    assert add in log(member, acme, q="nobody")
    assert add not in log(reader, acme, q="nobody")


def test_a_new_products_log_is_empty_and_says_so(member: Client, acme: Product) -> None:
    assert "No messages yet." in log(member, acme)


def test_drops_are_drawn_by_reason_and_each_leads_to_its_messages(
    member: Client, acme_rows: Rows
) -> None:
    DropCount.objects.filter(pk=acme_rows.drop_count.pk).update(day=timezone.now().date(), count=7)
    html = log(member, acme_rows.product, q="a b")
    assert "7 in total: Duplicate 7." in html
    assert 'href="?q=a+b&amp;reason=duplicate"' in html
    page = log(member, acme_rows.product, reason="duplicate")
    assert "dropped: Duplicate" in page and "acme-message" in page
    assert "No messages were dropped for this reason" in log(
        member, acme_rows.product, reason="unusable"
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"q": "\x00"},
        {"q": "<script>alert(1)</script>"},
        {"q": "%' OR 1=1 --"},
        {"q": "x" * 5000},
        {"q": "\ud800"},
        {"reason": "duplicate", "q": "acme-user", "e": "1"},
    ],
)
def test_any_search_returns_a_page(
    member: Client, acme_rows: Rows, parameters: dict[str, str]
) -> None:
    address = reverse("admin:ingestion_ingestionlog_change", args=[acme_rows.product.pk])
    parameters = {
        key: value.encode("utf-8", "replace").decode() for key, value in parameters.items()
    }
    answer = member.get(address, parameters)
    assert answer.status_code == 200
    assert b"<script>alert" not in answer.content


def test_unknown_senders_are_shown_to_superusers_only(
    root: Client, member: Client, acme_rows: Rows
) -> None:
    dropped_of_nobody()
    page = root.get(LIST).content.decode()
    assert "edk_wrong…" in page and "Unknown key" in page
    assert "stray" not in log(root, acme_rows.product)
    for html in (member.get(LIST).content.decode(), log(member, acme_rows.product, q="stray")):
        assert "edk_wrong" not in html and "unknown senders" not in html


def test_an_unknown_senders_messages_are_a_click_away(root: Client, acme_rows: Rows) -> None:
    dropped_of_nobody()
    dropped_of_nobody(9001, "edk_other")
    html = root.get(LIST).content.decode()
    (link,) = re.findall(r'href="([^"]+q=edk_wrong)"', html)
    answer = root.get(link.replace("&amp;", "&"))
    assert [row.pk for row in answer.context["cl"].result_list] == [9000]


def test_the_pages_have_no_inline_script_or_style(root: Client, acme_rows: Rows) -> None:
    dropped_of_nobody()
    for html in (root.get(LIST).content.decode(), log(root, acme_rows.product)):
        assert "<style" not in html and " style=" not in html and " onclick=" not in html
        scripts = html.split("<script")[1:]
        assert all(" src=" in script.split(">", 1)[0] for script in scripts)


@pytest.mark.parametrize("many", [1, 40])
def test_a_page_costs_the_same_queries_however_many_messages(
    root: Client, acme: Product, acme_key: str, django_assert_max_num_queries: Any, many: int
) -> None:
    people = [f"user {number}" for number in range(many)]
    wait(acme_key, *map(identify, people), *map(track, people))
    drain()
    wait(acme_key, *map(track, people))
    with django_assert_max_num_queries(33):
        assert "user 0" in log(root, acme)


def test_the_log_has_a_chart_of_the_messages_of_each_hour(reader: Client, acme: Product) -> None:
    assert "Messages per hour" not in log(reader, acme)
    hour = start_of_hour(timezone.now())
    for reason, count in (("", 100), (DropReason.DUPLICATE, 7)):
        HourCount.objects.create(product=acme, hour=hour, reason=reason, count=count)
    html = log(reader, acme)
    assert "107 in total: Recorded 100, Duplicate 7." in html
    assert '<a href="?reason=duplicate">Duplicate</a>' in html
    # A search is about single messages.
    assert "Messages per hour" not in log(reader, acme, q="ada")
