"""The home page: a card for each visible product, with its texts and number of queries."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.contrib.auth.models import User as AdminUser
from django.templatetags.static import static
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from access.admin.invitation import NewLoginForm, NewPasswordForm
from access.logins.passwords import RULES
from access.models import Invite
from access.pages.scoping import Access, ProductSet
from console.dashboard import cards, home, sections
from console.dashboard.summary import ProductSummary
from engagement.insight_kinds import INSIGHTS
from engagement.models import (
    Account,
    AccountEngagement,
    Alarm,
    AlarmNight,
    Product,
    ProductMember,
    ScoreSet,
    Workspace,
)
from engagement.segments import counts
from engagement.segments.attention import Attention
from engagement.segments.counts import SubjectTotals
from ingestion.log.hours import start_of_hour
from ingestion.log.last_24h import HOURS, Backlog, Last24Hours
from ingestion.models import DropCount, DropReason, HourCount, IngestionKey
from ingestion.snippets import KEY_PLACEHOLDER
from marketplace.models import Connection, Ledger
from marketplace.runs.timetable import load_timetable
from marketplace.status.health import LastRuns
from tests.admin.conftest import logged_in
from tests.admin.rows import Rows, a_connection, fill
from tests.database import CITUS
from tests.engagement.alarms.rows import alarm
from tests.engagement.history import identify
from tests.engagement.planted_nights import a_fall, add_nights
from tests.pipeline.waiting import drain, wait
from trends.models import DayFigures

NOW = datetime(2026, 3, 2, 12, 30, tzinfo=UTC)
EVERYTHING = Access(*[ProductSet(is_all=True)] * 3)


def page(who: Client) -> str:
    answer = who.get(reverse("admin:index"))
    assert answer.status_code == 200
    return answer.content.decode()


def text(html: str) -> str:
    """The text of the page between its heading and the list of apps."""
    content = html.split('id="content-main"')[1].split("everything-heading")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", content).split())


def came_this_week(rows: Rows) -> None:
    """Have the product's account be new on the day before its scores."""
    day_before = rows.account.first_seen_at - timedelta(days=1)
    Account.objects.filter(pk=rows.account.pk).update(first_seen_at=day_before)


# --- Who sees what --------------------------------------------------------------------------


def test_superusers_have_a_card_for_every_product(
    root: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    html = page(root)
    assert html.count('<article class="eds-card"') == 2
    assert "Acme</a></h2>" in html and "Globex</a></h2>" in html


def test_a_member_has_cards_of_their_products_alone(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    came_this_week(acme_rows)
    came_this_week(globex_rows)
    html = page(member)
    assert html.count('<article class="eds-card"') == 1
    assert "acme-account name" in html and "globex" not in html.lower()


def test_a_card_leads_to_the_pages_of_its_product(member: Client, acme_rows: Rows) -> None:
    came_this_week(acme_rows)
    html = page(member)
    ranked = f"?workspace={acme_rows.workspace.pk}"
    for address in (
        reverse("admin:engagement_product_change", args=[acme_rows.product.pk]),
        reverse("admin:engagement_account_changelist") + ranked,
        reverse("admin:engagement_user_changelist") + ranked,
        reverse("admin:engagement_account_change", args=[acme_rows.account.pk]) + ranked,
        reverse("admin:ingestion_ingestionlog_change", args=[acme_rows.product.pk]),
        reverse("admin:marketplace_connection_change", args=[acme_rows.connection.pk]),
    ):
        assert f'href="{address}"' in html, address
        assert member.get(address).status_code == 200


def test_names_of_customers_are_shown_as_text(member: Client, acme_rows: Rows) -> None:
    acme_rows.account.traits["name"] = "<b>Bold</b>"
    acme_rows.account.save(update_fields=["traits"])
    came_this_week(acme_rows)
    assert "&lt;b&gt;Bold&lt;/b&gt;" in page(member)


def test_the_page_has_no_inline_script_or_style(root: Client, acme_rows: Rows) -> None:
    html = page(root)
    assert "<style" not in html and " style=" not in html
    assert all(" src=" in tag.split(">", 1)[0] for tag in html.split("<script")[1:])


def test_every_page_has_the_services_icon(root: Client) -> None:
    for address in (reverse("admin:index"), reverse("admin:login"), "/docs"):
        who = Client() if "login" in address else root
        assert static("config/favicon.svg").encode() in who.get(address).content, address
    assert root.get("/favicon.ico").headers["Location"] == static("config/favicon.svg")
    icon = root.get(static("config/favicon.svg"))
    assert icon.getvalue().startswith(b"<svg") and icon.headers["Content-Type"] == "image/svg+xml"
    icon.close()


def test_pages_to_log_in_show_the_mark_and_the_rules_of_passwords_in_a_line(acme: Product) -> None:
    html = Client().get(reverse("admin:login")).content.decode()
    assert f'<img src="{static("config/favicon.svg")}"' in html
    form = NewPasswordForm(Invite(login=AdminUser(username="ada")))
    helps = [field.help_text for field in (*NewLoginForm(Invite()), *form) if field.help_text]
    assert RULES in helps and not any("<ul>" in text for text in helps)
    assert len(settings.AUTH_PASSWORD_VALIDATORS) >= 5, "Do the rules still say what is checked?"


def test_everything_in_the_side_bar_has_an_icon(root: Client, acme_rows: Rows) -> None:
    Product.create_with_workspace("Another")
    Ledger.objects.create(product=acme_rows.product)
    html = root.get(f"{reverse('admin:index')}?product={acme_rows.product.pk}").content.decode()
    references = re.findall(rf'<use href="{static("config/icons.svg")}#(\w+)"', html)
    icons = root.get(static("config/icons.svg"))
    symbols = set(re.findall(r'<symbol id="(\w+)"', icons.getvalue().decode()))
    icons.close()
    assert set(sections.LABELS) | {"products", "jobs"} <= set(references) <= symbols


def test_only_superusers_see_messages_with_unknown_keys(
    root: Client, member: Client, acme_rows: Rows
) -> None:
    today = timezone.now().astimezone(UTC).date()
    for day, count in ((today, 3), (today - timedelta(days=1), 40)):
        DropCount.objects.create(day=day, reason=DropReason.UNKNOWN_KEY, count=count)
    sentence = "3 messages today had a missing or unknown key. See the senders"
    assert sentence in text(page(root))
    assert "no product has" not in page(member)


# --- Nothing yet ----------------------------------------------------------------------------


def test_without_products_a_superuser_sees_how_to_start(root: Client) -> None:
    html = page(root)
    assert "Nothing is set up yet" in html
    assert f'href="{reverse("admin:engagement_product_add")}"' in html
    assert "python manage.py create_product NAME" in html
    curl = "curl -X POST http://testserver/v2/identify -H &#x27;Authorization: Basic "
    assert f"{curl}{KEY_PLACEHOLDER}" in html
    assert "<article" not in html


def test_a_login_that_may_add_products_gets_a_link(db: None) -> None:
    maker = AdminUser.objects.create_user("mia", is_staff=True)
    maker.user_permissions.set(Permission.objects.filter(codename="add_product"))
    html = page(logged_in(maker))
    assert "Add the first product" in html and "create_product" not in html


def test_staff_without_a_product_see_whom_to_ask(acme: Product) -> None:
    nobody = logged_in(AdminUser.objects.create_user("nick", is_staff=True))
    page_text = text(page(nobody) + "everything-heading")
    assert "You are not a member of any product yet" in page_text
    assert "Your login is nick ." in page_text
    assert "Acme" not in page_text and "Add the first product" not in page_text


def test_a_manager_of_a_product_without_a_key_makes_one_first(
    member: Client, acme: Product
) -> None:
    html = page(member)
    assert "First create an ingestion key" in html
    add = f"{reverse('admin:ingestion_ingestionkey_add')}?product={acme.pk}"
    assert f'href="{add}"' in html and member.get(add).status_code == 200


def test_a_viewer_sees_that_a_manager_creates_the_key(reader: Client, acme: Product) -> None:
    html = page(reader)
    assert "A manager of the product must first create an ingestion key." in text(html)
    assert "Create ingestion key<" not in html


def test_a_manager_has_the_lines_with_the_key_on_request_only(
    member: Client, acme: Product
) -> None:
    IngestionKey.create(acme, "old")
    revoked = IngestionKey.create(acme, "revoked")
    IngestionKey.objects.filter(pk=revoked.pk).update(revoked_at=NOW)
    html = page(member)
    assert "No messages yet." in html and f"Basic {KEY_PLACEHOLDER}" in html
    key = IngestionKey.objects.get(name="old")
    assert key.secret not in html and revoked.hint not in html
    reveal = reverse("admin:ingestion_ingestionkey_reveal", args=[key.pk])
    assert f'action="{reveal}"' in html
    # As on every page: revealing a key is recorded in its history, and the key is shown once.
    response = member.post(reveal, follow=True)
    assert f"Basic {key.secret}" in response.content.decode()
    assert key.secret not in page(member)


def test_a_viewer_gets_the_lines_without_the_key(reader: Client, acme: Product) -> None:
    key = IngestionKey.create(acme, "web")
    html = page(reader)
    assert f"Basic {KEY_PLACEHOLDER}" in html
    assert key.secret not in html and "Show with the key" not in html


def test_a_first_message_puts_numbers_in_the_place_of_the_next_step(
    member: Client, acme: Product, acme_key: str
) -> None:
    wait(acme_key, identify("ada"), received_at=timezone.now())
    assert "No messages yet" not in page(member)
    drain(timezone.now())
    page_text = text(page(member))
    assert "No messages yet" not in page_text and "Accepted (24 h) 1" in page_text


# --- What a card says -----------------------------------------------------------------------


@dataclass
class Case:
    """Data about Acme, and the level and start of each notice on its card, most urgent first."""

    facts: dict[str, Any] = field(default_factory=dict)
    says: list[tuple[str, str]] = field(default_factory=list)


def hours(**at_newest: int) -> list[int]:
    return [*[0] * (HOURS - 1), at_newest.get("newest", 0)]


def last_24h(**values: Any) -> Last24Hours:
    values = {"recorded": hours(newest=100), "waiting": Backlog(), "quarantined": 0, **values}
    newest = start_of_hour(NOW)
    return Last24Hours(
        [newest - timedelta(hours=back) for back in range(HOURS - 1, -1, -1)], **values
    )


def backlog(number: int, **ago: float) -> Backlog:
    return Backlog(number, NOW - timedelta(**ago))


SOME = SubjectTotals(users=40, active_users=30, accounts=4, active_accounts=3)
NOBODY_SCORED = SubjectTotals()
CASES = {
    "all is well": Case(),
    "not scored yet": Case(
        {"totals": None}, [("quiet", "Scores are being computed for the first")]
    ),
    "nobody identified": Case(
        {"totals": NOBODY_SCORED}, [("warning", "No users have been identified yet")]
    ),
    "an audience of nobody": Case(
        {"totals": NOBODY_SCORED, "audience": {"match": "all", "conditions": []}},
        [("warning", "No users are in the audience of Default.")],
    ),
    "users without accounts": Case({"totals": SubjectTotals(users=3)}, []),
    "no workspace": Case(
        {"workspaces": [], "totals": None},
        [("warning", "This product has no workspace, so there are no scores.")],
    ),
    "an edited workspace": Case(
        {"building": True}, [("quiet", "Scores of Default: Recalculating (users next).")]
    ),
    "a short wait": Case({"last_24h": last_24h(waiting=backlog(5, seconds=60))}),
    "a long wait": Case(
        {"last_24h": last_24h(waiting=backlog(1200, minutes=3, seconds=9))},
        [("warning", "1,200 messages are waiting in the inbox, the oldest for 3 min.")],
    ),
    "one message that waits long": Case(
        {"last_24h": last_24h(waiting=backlog(1, seconds=61))},
        [("warning", "1 message has been waiting in the inbox for 1 min.")],
    ),
    "an inbox too deep to count": Case(
        {"last_24h": last_24h(waiting=None)},
        [("warning", "Too many messages to count are waiting in the inbox.")],
    ),
    "quarantine": Case(
        {"last_24h": last_24h(quarantined=7)},
        [("warning", "Messages in quarantine after repeated failures: 7.")],
    ),
    "a quarantine too full to count": Case(
        {"last_24h": last_24h(quarantined=None)},
        [("warning", "Messages in quarantine after repeated failures: too many to count.")],
    ),
    "many dropped": Case(
        {"last_24h": last_24h(dropped={DropReason.REVOKED_KEY: hours(newest=20)})},
        [
            (
                "warning",
                "20 of 120 messages of the last 24 hours were dropped, all of them for this "
                "reason: Revoked key.",
            )
        ],
    ),
    "dropped for several reasons": Case(
        {
            "last_24h": last_24h(
                dropped={
                    DropReason.INVALID: hours(newest=37),
                    DropReason.ANONYMOUS: hours(newest=32),
                    DropReason.ALIAS: hours(newest=30),
                    DropReason.DUPLICATE: hours(newest=98),
                }
            )
        },
        [
            (
                "warning",
                "99 of 297 messages of the last 24 hours were dropped, 37 of them for this "
                "reason: Invalid message.",
            )
        ],
    ),
    "few dropped": Case({"last_24h": last_24h(dropped={DropReason.ANONYMOUS: hours(newest=5)})}),
    "retries": Case({"last_24h": last_24h(dropped={DropReason.DUPLICATE: hours(newest=500)})}),
    "silence": Case(
        {"last_24h": last_24h(recorded=hours()), "used": NOW - timedelta(days=3)},
        [
            (
                "quiet",
                "No messages in the last 24 hours. The last one arrived 2026-02-27 12:30:00 UTC.",
            )
        ],
    ),
    "silence after an import": Case(
        {"last_24h": last_24h(recorded=hours())}, [("quiet", "No messages in the last 24 hours.")]
    ),
    "several things": Case(
        {"totals": None, "last_24h": last_24h(quarantined=1)},
        [("warning", "Messages in quarantine"), ("quiet", "Scores are being computed")],
    ),
}


def card_of(product: Product, case: Case, allowed: Access = EVERYTHING) -> cards.Card:
    """The product's card for a login with full access."""
    workspace = product.workspaces.get()
    workspace.audience = case.facts.get("audience", {})
    building = ScoreSet(phase=ScoreSet.Phase.USERS)
    workspace.sets_being_built = [building] if case.facts.get("building") else []  # type: ignore[attr-defined]
    key = IngestionKey(pk=1, name="web", last_used_at=case.facts.get("used"))
    facts = ProductSummary(
        product=product,
        has_users=True,
        workspaces=case.facts.get("workspaces", [workspace]),
        totals=case.facts.get("totals", SOME),
        is_alone=case.facts.get("is_alone", True),
        weekly_accounts=case.facts.get("weekly", ()),
        attention=case.facts.get("attention", Attention({}, {})),
        last_24h=case.facts.get("last_24h", last_24h()),
        keys=[key],
        connection=case.facts.get("connection"),
        last_syncs=case.facts.get("last_syncs", LastRuns()),
        timetable=load_timetable(),
    )
    return cards.build_card(facts, allowed, NOW)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_card_says_what_there_is_to_know(case: Case, acme: Product) -> None:
    notes = [(note.level, note.text) for note in card_of(acme, case).notices]
    assert len(notes) == len(case.says), notes
    for (level, notice_text), (expected, beginning) in zip(notes, case.says, strict=True):
        assert level == expected and notice_text.startswith(beginning), notice_text


def test_what_can_be_done_about_it_is_a_link_away(acme: Product) -> None:
    dropped = {DropReason.ALIAS: hours(newest=90), DropReason.INVALID: hours(newest=80)}
    card = card_of(acme, Case({"last_24h": last_24h(dropped=dropped, quarantined=1)}))
    log = reverse("admin:ingestion_ingestionlog_change", args=[acme.pk])
    quarantine = reverse("admin:ingestion_quarantinedmessage_changelist")
    assert {note.link.url for note in card.notices if note.link} == {
        f"{log}?reason=alias",
        f"{quarantine}?product__id__exact={acme.pk}",
    }


def test_only_managers_get_a_link_to_add_a_workspace(acme: Product) -> None:
    case = Case({"workspaces": [], "totals": None})
    visible = ProductSet(frozenset([acme.pk]))
    (note,) = card_of(acme, case, Access(visible, ProductSet(), ProductSet())).notices
    assert note.link is None
    (note,) = card_of(acme, case, Access(visible, visible, visible)).notices
    assert note.link and note.link.url.endswith(f"/workspace/add/?product={acme.pk}")


def test_a_product_that_is_being_deleted_says_nothing_else(acme: Product) -> None:
    acme.deletion_requested_at, acme.deleted_rows = NOW, 12345
    card = card_of(acme, Case({"last_24h": last_24h(quarantined=7)}))
    assert [(notice.level, notice.text) for notice in card.notices] == [
        ("warning", "Being deleted: 12,345 rows so far.")
    ]
    assert not card.statistics and card.weekly is None and not card.links


def test_the_numbers_of_a_product(acme: Product) -> None:
    dropped = {DropReason.DUPLICATE: hours(newest=7)}
    facts = {
        "last_24h": last_24h(
            dropped=dropped, waiting=backlog(3, seconds=4), in_inbox=hours(newest=3)
        )
    }
    assert [
        (statistic.label, statistic.value, statistic.detail)
        for statistic in card_of(acme, Case(facts)).statistics
    ] == [
        ("Scored accounts", "4", "3 active in the last 7 days"),
        ("Scored users", "40", "30 active in the last 7 days"),
        ("Accepted (24 h)", "110", "7 dropped on purpose"),
        ("In the inbox", "3", "up to 4 s"),
    ]


def test_a_card_says_the_same_of_drops_in_its_numbers_and_its_note(acme: Product) -> None:
    card = card_of(acme, CASES["dropped for several reasons"])
    assert card.statistics[2].detail == "99 dropped, 98 more on purpose"
    assert card.notices[0].text.startswith("99 of 297 messages")


def test_a_card_says_that_the_whole_product_falls_and_that_its_sender_is_silent(
    acme: Product,
) -> None:
    workspace = acme.workspaces.get()
    yesterday = NOW.date() - timedelta(days=1)
    add_nights(workspace, [*a_fall(20)[:-1], 3], yesterday)
    (summary,) = home.product_summaries([acme], NOW)
    notices = {
        notice.text: notice.level for notice in cards.build_card(summary, EVERYTHING, NOW).notices
    }
    silent, falls = [text for text in notices if text.startswith("The ") and "user-days" in text]
    assert silent.startswith("The sender may be silent: 3 active user-days on 2026-03-01.")
    assert falls.startswith("The whole product is used less: ")
    assert notices[silent] == notices[falls] == "warning"
    AlarmNight.objects.filter(day__lt=yesterday - timedelta(days=200)).delete()
    (summary,) = home.product_summaries([acme], NOW)
    notices = {
        notice.text: notice.level for notice in cards.build_card(summary, EVERYTHING, NOW).notices
    }
    (lower,) = [text for text in notices if "less than usual" in text]
    assert notices[lower] == "quiet"


def test_a_card_beside_others_has_three_insights_and_a_curve(acme: Product) -> None:
    kinds = dict.fromkeys(list(INSIGHTS)[:5], 2)
    facts = {"attention": Attention(kinds, {}), "weekly": [None, 1234, None, 9]}
    card = card_of(acme, Case({"is_alone": False, **facts}))
    labels = [INSIGHTS[kind].label for kind in kinds]
    assert [each.label for each in card.insights] == labels[:3]
    assert card.weekly is not None
    assert (card.weekly.first, card.weekly.last) == ("1,234", "9")
    assert [each.label for each in card_of(acme, Case(facts)).insights] == labels
    # A point is no curve.
    for weekly in ([], [None], [None, 7, None]):
        assert card_of(acme, Case({"is_alone": False, "weekly": weekly})).weekly is None


def test_the_curve_has_a_number_for_each_complete_day(
    root: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    today = timezone.now().astimezone(UTC).date()
    ago = {0: 99, 1: 30, 2: 20, home.WEEKLY_DAYS: 10, home.WEEKLY_DAYS + 1: 99}
    for days, accounts in ago.items():
        figures = DayFigures(
            workspace=acme_rows.workspace, day=today - timedelta(days=days), score_set_id=1
        )
        figures.weekly_accounts = accounts
        figures.save(force_insert=True)
    DayFigures(
        workspace=acme_rows.workspace,
        segment_id=acme_rows.segment.pk,
        day=today - timedelta(days=3),
        score_set_id=1,
        weekly_accounts=99,
    ).save(force_insert=True)
    own, other = home.product_summaries([acme_rows.product, globex_rows.product], timezone.now())
    assert own.weekly_accounts == [10, *[None] * (home.WEEKLY_DAYS - 3), 20, 30]
    assert other.weekly_accounts == ()
    html = page(root)
    assert html.count('class="eds-weekly"') == 1 and "<b>10 → 30</b>" in html
    # One product has its trends instead.
    (alone,) = home.product_summaries([acme_rows.product], timezone.now())
    assert alone.weekly_accounts == ()


def test_an_overview_says_what_changed_this_week_and_other_cards_do_not(
    member: Client, acme_rows: Rows, django_assert_max_num_queries: Any
) -> None:
    came_this_week(acme_rows)
    row = AccountEngagement.objects.get(product=acme_rows.product)
    alarm(row, since=row.account.first_seen_at.date() - timedelta(days=2))
    with django_assert_max_num_queries(65):
        answer = member.get(reverse("admin:index"))
    html = answer.content.decode()
    assert "What changed this week" in html and "1 alarm began and 1 account is new." in html
    (card,) = answer.context["cards"]
    titles = [section.title for section in card.changes.sections]
    # The alarm is named by what needs attention.
    assert titles[0] == "New accounts" and 'class="eds-began">New</b>' in html
    (kind,) = [each for each in card.insights if each.began]
    listed = member.get(kind.url)
    assert listed.status_code == 200 and "acme-account" in listed.content.decode()
    Product.objects.create(name="Initech").members.add(AdminUser.objects.get(username="maya"))
    assert "What changed this week" not in page(member)


def test_an_overview_names_the_accounts_that_need_attention(
    member: Client, acme_rows: Rows
) -> None:
    long_ago = timezone.now() - timedelta(days=400)
    Account.objects.filter(pk=acme_rows.account.pk).update(first_seen_at=long_ago)
    scores = acme_rows.workspace.scores
    assert scores is not None and scores.scored_day is not None
    last_at = datetime.combine(scores.scored_day - timedelta(days=20), NOW.time(), UTC)
    AccountEngagement.objects.filter(score_set=scores).update(raw=0, last_active_at=last_at)
    alarm(AccountEngagement.objects.get(score_set=scores), is_stopped=True)
    workspace = acme_rows.workspace.pk
    listed = f"{reverse('admin:engagement_account_changelist')}?workspace={workspace}"
    account = reverse("admin:engagement_account_change", args=[acme_rows.account.pk])
    html = member.get(f"{reverse('admin:index')}?workspace={workspace}").content.decode()
    assert f'<a href="{listed}&amp;insight=activity_stopped">See all 1<' in html
    assert f'<a href="{account}?workspace={workspace}">acme-account name</a>' in html
    assert "No activity for 20 days; expected " in html
    assert 'class="eds-warning">Activity stopped <strong>1</strong></a>' in html
    # One block: what needs attention is a part of what changed, and nothing is said twice.
    block = html[html.index('<section class="eds-changes"') :]
    assert ">Needs attention</h4>" in block and html.count("No activity for 20 days") == 1
    assert "larms that began" not in block
    # An alarm of this week is marked among those that need attention, and counted.
    Alarm.objects.update(since=scores.scored_day - timedelta(days=2))
    html = member.get(f"{reverse('admin:index')}?workspace={workspace}").content.decode()
    assert '<b class="eds-began">New</b> No activity for 20 days' in html
    assert 'Activity stopped <strong>1</strong> <span class="quiet">1 new</span></a>' in html
    assert "1 alarm began" in html and "larms that began" not in html
    assert html.count("No activity for 20 days") == 1


def test_beside_others_a_card_has_the_last_numbers_of_insights(
    root: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    assert "See all" not in page(root) and "New account <strong>" not in page(root)
    scores = acme_rows.workspace.scores
    assert scores is not None
    counts.recount(scores, timezone.now())
    html = page(root)
    assert "New account <strong>1</strong>" in html and "Needs attention</h3>" not in html


State = Connection.State
CONNECTIONS = {
    "active": ({}, "good", "Marketplace: Connected. Licenses are updated every 6 hours."),
    "requires authentication": (
        {
            "state": State.REQUIRES_AUTHENTICATION,
            "state_reason": "The marketplace rejects the token (401).",
        },
        "bad",
        "Marketplace: Requires authentication. The marketplace rejects the token (401).",
    ),
    "disconnected": (
        {"state": State.DISCONNECTED, "api_token": None},
        "quiet",
        "Marketplace: Disconnected.",
    ),
    "failed last": (
        {"last_error_at": NOW + timedelta(days=1), "last_error": "It is unavailable."},
        "warning",
        "Marketplace: Connected. The last sync failed.",
    ),
}


@pytest.mark.parametrize(("fields", "level", "notice_text"), CONNECTIONS.values(), ids=CONNECTIONS)
def test_a_card_says_how_the_connection_stands(
    fields: dict[str, Any], level: str, notice_text: str, acme: Product
) -> None:
    connection = a_connection(acme, **fields)
    card = card_of(acme, Case({"connection": connection}))
    # Problems are at the top.
    (note,) = card.notices if level in ("bad", "warning") else [card.connection]
    assert note and (note.level, note.text) == (level, notice_text)
    page = reverse("admin:marketplace_connection_change", args=[connection.pk])
    assert note.link and note.link.url == page


def test_a_card_shows_the_first_workspace_and_names_the_others(
    member: Client, acme_rows: Rows
) -> None:
    others = [Workspace.objects.create(product=acme_rows.product, name=f"W{n}") for n in range(7)]
    page_text = text(page(member))
    assert "Default workspace: last 7 days" in page_text
    assert "Other workspaces: W0 , W1 , W2 , W3 , W4 and 2 more." in page_text
    ranked = f"{reverse('admin:engagement_account_changelist')}?workspace={others[0].pk}"
    assert f'href="{ranked}"' in page(member)


# --- Cost -----------------------------------------------------------------------------------


def many_products(number: int) -> list[Product]:
    products = [Product.create_with_workspace(f"Number {n:03}") for n in range(number)]
    for product in products:
        ProductMember.objects.create(product=product, user=AdminUser.objects.get(username="maya"))
        HourCount.objects.create(
            product=product, hour=start_of_hour(timezone.now()), reason="", count=3
        )
    return products


def test_hundreds_of_products_have_a_few_cards_and_a_link_to_the_rest(
    member: Client, acme_rows: Rows
) -> None:
    many_products(20)
    maya = AdminUser.objects.get(username="maya")
    more = Product.objects.bulk_create(Product(name=f"Other {n:03}") for n in range(280))
    ProductMember.objects.bulk_create(ProductMember(product=product, user=maya) for product in more)
    html = page(member)
    assert html.count('<article class="eds-card"') == home.MAX_CARDS
    page_text = text(html)
    assert "Only the first 6 products are shown. See all products (295 more)." in page_text


@pytest.mark.parametrize("products", [1, 11, 40])
def test_queries_do_not_grow_with_products(
    member: Client, acme_rows: Rows, products: int, django_assert_max_num_queries: Any
) -> None:
    for number, product in enumerate(many_products(products), start=2):
        if number <= home.MAX_CARDS:
            fill(product, number)
    # On a cluster, there is one for each: products and their users are on different servers.
    each_card = 1 if CITUS else 0
    with django_assert_max_num_queries(33 + each_card * min(products + 1, home.MAX_CARDS)):
        page(member)
