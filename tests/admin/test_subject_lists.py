"""The lists of users and accounts: order, filters, pages, columns."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from access.pages.lookups import INVALID_FILTER_MESSAGE
from console.lists import rows as list_rows
from console.lists.columns import MAX_ICONS, choosable_columns, from_now
from console.lists.state import ListState
from core.database import sql
from engagement.activity.reading import NO_ALARMS, alarms_by_account
from engagement.insight_kinds import INSIGHTS
from engagement.models import (
    Account,
    AccountEngagement,
    DailyCount,
    SavedView,
    ScoreSet,
    Segment,
    User,
    UserEngagement,
    Workspace,
)
from engagement.orders import pages, storage
from engagement.scores import histories
from engagement.scores.history import AllTimeTotals
from engagement.scores.insights import account_insights
from engagement.scores.metrics import compute_account_metrics
from engagement.segments import counts
from tests.admin.rows import NOON, Rows, a_user, an_account, index_for_search
from tests.admin.test_subject_pages import counted, second_workspace
from tests.cases import each
from tests.chances import add_chance
from tests.engagement.alarms.rows import alarm
from tests.jobs import pretend_duration, refresh_orders
from tests.license_events import add_event

# A condition that each account meets.
RULE = [{"kind": "trait", "trait": "none", "operator": "is_not_set"}]


def opened(who: Client, kind: Any = "user", **query: Any) -> Any:
    answer = who.get(reverse(f"admin:engagement_{kind}_changelist"), query, follow=True)
    assert answer.status_code == 200, answer
    return answer


def listed(who: Client, kind: Any = "user", **query: Any) -> list[str]:
    return [each.external_id for each in opened(who, kind, **query).context["subjects"]]


def text_of(answer: Any) -> str:
    """The text of the page's content."""
    html = answer.content.decode()
    return " ".join(strip_tags(html.partition('id="content-main"')[2]).split())


@pytest.fixture
def ranked(acme_rows: Rows) -> Rows:
    """Users of 500, 100 and 1 points, newest last."""
    for name, raw in [("high", 500), ("low", 1)]:
        a_user(acme_rows.product, name, acme_rows.workspace, acme_rows.account, raw)
    return acme_rows


def compared(yesterday: int, before: int) -> dict[str, int]:
    return {"raw_yesterday": yesterday, "raw_yesterday_last_period": before}


@pytest.fixture
def customers(acme_rows: Rows) -> Rows:
    """Accounts that differ in everything that a list shows."""
    rows = acme_rows
    numbers: dict[str, dict[str, Any]] = {
        "acme-account": {"raw": 200, **compared(200, 20), "active_users": 3, "total_users": 9},
        "globex": {"raw": 20, **compared(20, 400), "active_users": 1, "total_users": 2},
        # Today, which is not over, is in no change.
        "initech": {"raw": 0, **compared(0, 0), "raw_last_period": 200},
    }
    traits: dict[str, dict[str, Any]] = {
        "acme-account": {"name": "Acme", "domain": "acme.example", "plan": "pro", "mrr": 123400},
        "globex": {
            "name": "Globex",
            "am.licenseType": "COMMERCIAL",
            "am.tier": "500 Users",
            "am.status": "active",
            "am.maintenanceEndDate": "2026-03-26",
            "plan": "free",
            "mrr": "on <request>",
        },
        "initech": {"am.licenseType": "EVALUATION", "am.maintenanceEndDate": "2026-03-20"},
    }
    for name in ("globex", "initech"):
        an_account(rows.product, name, rows.workspace)
    ScoreSet.objects.update(
        account_benchmark=200,
        account_benchmark_last_period=200,
        account_benchmark_yesterday=200,
        account_benchmark_yesterday_last_period=200,
    )
    for name, values in numbers.items():
        earlier = NOON - timedelta(days=90)
        own_row = Account.objects.filter(external_id=name)
        own_row.update(traits=traits[name], first_seen_at=earlier)
        own = AccountEngagement.objects.filter(account__external_id=name)
        own.update(**{"active_users": 0, **values})
    active = AccountEngagement.objects.filter(raw__gt=0)
    active.update(last_active_at=NOON - timedelta(hours=3))
    active.filter(account__external_id="globex").update(last_active_at=NOON - timedelta(days=5))
    for name, signal in (("acme-account", "rise"), ("globex", "fall")):
        alarm(AccountEngagement.objects.get(account__external_id=name), signal)
    for name, type, day in (
        ("initech", "churned", NOON.date() - timedelta(days=1)),
        ("globex", "churned", NOON.date() - timedelta(days=30)),
        # It was paid early.
        ("globex", "renewed", NOON.date() + timedelta(days=41)),
    ):
        add_event(rows.product, type, day, license=f"E-{name}", cloud_id=name)
    return rows


# --- Workspaces and segments ----------------------------------------------------------------


def test_a_list_opens_in_the_first_workspace(root: Client, ranked: Rows, globex_rows: Rows) -> None:
    first, second = ranked.workspace.pk, second_workspace(ranked).pk
    assert listed(root) == ["high", "acme-user", "low"]
    assert opened(root).redirect_chain[-1][0].endswith(f"?workspace={first}")
    assert listed(root, workspace=second) == ["acme-user"]
    assert listed(root, "account", workspace=first) == ["acme-account"]
    of_product = opened(root, "account", product__id__exact=globex_rows.product.pk, q="x")
    assert of_product.redirect_chain == [
        (f"/admin/engagement/account/?workspace={globex_rows.workspace.pk}&q=x", 302)
    ]


def test_a_list_says_what_it_lacks(root: Client, ranked: Rows) -> None:
    assert "No users match these filters. Clear all." in text_of(opened(root, active="before-90"))
    text = text_of(opened(root, q="nobody"))
    assert "No users match “nobody”. Search looks for any part of the name" in text
    ScoreSet.objects.update(scored_day=None)
    assert listed(root, segment=ranked.segment.pk) == []
    Workspace.objects.update(scores=None)
    assert "The scores of this workspace are being computed." in text_of(opened(root))
    Workspace.objects.all().delete()
    assert "Acme has no workspace. Scores, and this list, need one." in text_of(opened(root))


def test_a_segment_leaves_its_members(root: Client, ranked: Rows) -> None:
    parameters = {"workspace": ranked.workspace.pk, "segment": ranked.segment.pk}
    assert listed(root, **parameters) == ["high", "acme-user", "low"]
    # The segment has the users who did not do the event.
    counted(ranked)
    assert listed(root, **parameters) == ["high", "low"]
    index_for_search(ranked.product)
    assert listed(root, **parameters, q="hig") == ["high"]
    assert "Segment: acme segment" in text_of(opened(root, **parameters))


def test_segments_are_offered_of_the_chosen_workspace_and_kind(root: Client, ranked: Rows) -> None:
    Segment.objects.create(workspace=ranked.workspace, scope="user", name="x", conditions=[{}])
    option = f'name="segment" value="{ranked.segment.pk}"'
    assert option not in opened(root, "account").content.decode()
    page = opened(root).content.decode()
    assert option in page
    # Besides "All", without the one that has no valid rule.
    assert page.count('name="segment"') == Segment.objects.filter(scope="user").count()
    assert option not in opened(root, workspace=second_workspace(ranked).pk).content.decode()


def test_no_workspace_or_segment_of_another_product_is_taken(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    own, theirs = acme_rows.workspace.pk, globex_rows.workspace.pk
    for kind in ("user", "account"):
        address = reverse(f"admin:engagement_{kind}_changelist")
        for query in (
            {"workspace": theirs},
            {"workspace": "x"},
            {"product__id__exact": globex_rows.product.pk},
            {"workspace": theirs, "segment": globex_rows.segment.pk},
            {"workspace": own, "segment": globex_rows.segment.pk},
        ):
            answer = member.get(address, query)
            assert answer.status_code == 404, query
            assert b"globex" not in answer.content.lower()
        assert listed(member, kind) == [f"acme-{kind}"]
        assert b"Globex" not in opened(member, kind).content


# --- Order ----------------------------------------------------------------------------------

ORDERS = {
    "score": ["initech", "globex", "acme-account"],
    # The release before called the order by the name of the read API's.
    "change": ["globex", "initech", "acme-account"],
    "change_complete_days": ["globex", "initech", "acme-account"],
    "active_users": ["initech", "globex", "acme-account"],
    "last_active": ["globex", "acme-account", "initech"],
    "renewal": ["initech", "globex", "acme-account"],
    "name": ["acme-account", "globex", "initech"],
    "trait:plan": ["globex", "acme-account", "initech"],
}
WITHOUT_VALUE = {"last_active": "initech", "renewal": "acme-account", "trait:plan": "initech"}


@pytest.mark.slow
def test_every_head_sorts_both_ways(root: Client, customers: Rows) -> None:
    for column, names in ORDERS.items():
        assert listed(root, "account", sort=column) == names, column
        without = [WITHOUT_VALUE[column]] if column in WITHOUT_VALUE else []
        backwards = [name for name in names[::-1] if name not in without] + without
        assert listed(root, "account", sort=f"-{column}") == backwards, column
    page = opened(root, "account").content.decode()
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', page)
    assert [strip_tags(head) for head in heads] == [
        *("Name", "Score", "Change", "Last 30 days", "Active users", "Last active", "License"),
        "Renewal",
    ]
    assert 'aria-sort="descending"><a href="?workspace=' in page
    # The head of the order turns it around. Change begins with the accounts that fell most.
    assert "sort=score" in heads[1] and "sort=change" in heads[2] and "href" not in heads[3]
    sorted_by_change = opened(root, "account", sort="change").content.decode()
    assert (
        "sort=-change_complete_days" in sorted_by_change
        and 'aria-sort="ascending"' in sorted_by_change
    )


def test_every_row_is_reachable(
    root: Client, ranked: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ListState, "page_size", 1)
    for is_large in (False, True):
        if is_large:
            monkeypatch.setattr(storage, "MAX_LIVE_ROWS", 0)
            pretend_duration(monkeypatch, 0.0)
            monkeypatch.setattr(pages, "MAX_INDEXED_ROWS", 1)
            counts.recount(ScoreSet.objects.get(), NOON)
            refresh_orders(NOON)
        for sort, names in (
            ("-score", ["high", "acme-user", "low"]),
            ("name", ["acme-user", "high", "low"]),
        ):
            walked, query = [], {"sort": sort}
            while True:
                page = opened(root, **query)
                walked += [each.external_id for each in page.context["subjects"]]
                if not page.context["next_query"]:
                    break
                query = dict(pair.split("=") for pair in page.context["next_query"].split("&"))
            assert walked == names, (sort, is_large)
            assert "3 users" in text_of(page)
            assert (is_large and sort == "name") == (
                "In the order of" in text_of(page) and sort == "name"
            )


WORDS = ("license attribute of the marketplace ", "ライセンスの属性 ", 'R&D\'s "plan" ')


@pytest.fixture
def crowded(acme_rows: Rows) -> Rows:
    """Accounts with long names, and as many segments and views as fill the menus of their list."""
    product, workspace = acme_rows.product, acme_rows.workspace
    for number in range(44):
        an_account(product, f"acme-organization-{number}", workspace)
    Segment.objects.bulk_create(
        Segment(workspace=workspace, scope="account", name=f"{WORDS[0]}{number}", conditions=RULE)
        for number in range(60)
    )
    SavedView.objects.bulk_create(
        SavedView(product=product, workspace=workspace, scope="account", name=f"{WORDS[0]}{number}")
        for number in range(60)
    )
    return acme_rows


def own_columns() -> list[str]:
    return [column.name for column in choosable_columns("account")]


def test_a_list_cuts_no_name_domain_date_or_license(root: Client, crowded: Rows) -> None:
    name = "The quite long name of a company that trades as a cooperative, and its subsidiaries"
    domain = f"{'a-long-label.' * 8}example.com"
    facts = {
        "name": name,
        "domain": domain,
        "am.licenseType": "COMMERCIAL",
        "am.tier": "Unlimited Users of All Products and Their Add-ons",
        "am.status": "active",
        "am.maintenanceEndDate": "2036-12-26",
    }
    Account.objects.update(traits=facts)
    wide = [*own_columns(), "trait:name"]
    for columns in ([], wide):
        for sort in ORDERS:
            page = opened(root, "account", sort=sort, column=columns)
            rows = re.findall(r"<tr>(<th scope=\"row\".*?)</tr>", page.content.decode())
            assert len(rows) == 40, (sort, columns)
            for row in rows:
                texts = " ".join(strip_tags(row).split())
                assert texts.startswith(name) and domain in texts, (sort, columns)
                assert f"Commercial {facts['am.tier']}" in texts, (sort, columns)
                assert "26 Dec 2036 renews in" in texts, (sort, columns)
    (row, *_) = re.findall(
        r"<tr>(<th scope=\"row\".*?)</tr>",
        opened(root, "account", column=["license"]).content.decode(),
    )
    texts = " ".join(strip_tags(row).split())
    assert f"Commercial · {facts['am.tier']} active · renews 26 Dec 2036" in texts
    # A user's row names the account.
    User.objects.update(traits={"name": name, "email": f"{'ada' * 30}@{domain}"})
    (row,) = re.findall(r"<tr>(<th scope=\"row\".*?)</tr>", opened(root).content.decode())
    assert row.count(f">{name}</a>") == 2 and f"{'ada' * 30}@{domain}" in row


def test_only_prose_and_what_no_name_is_are_cut(root: Client, acme_rows: Rows) -> None:
    Account.objects.update(traits={"name": "n" * 100_000, "note": "a remark " * 100})
    page = opened(root, "account", column=["score", "trait:note"]).content.decode()
    assert f">{'n' * 512}…</a>" in page and "n" * 513 not in page
    assert f">{('a remark ' * 100)[:200]}…</td>" in page


def test_every_page_has_40_rows_whatever_the_columns(root: Client, crowded: Rows) -> None:
    Account.objects.update(traits={f"trait {number}": "a value" for number in range(5)})
    own = own_columns()
    wide = [*own, *(f"trait:trait {number}" for number in range(5))]
    for columns in ([], own, wide):
        for query in ({}, {"license_type": "none", "trait.trait 1": "a value"}):
            page = opened(root, "account", column=columns, **query)
            assert len(page.context["subjects"]) == 40
    # The next page has the columns as well, in one parameter.
    assert f"columns={','.join(own)}" in opened(root, "account", column=own).context["next_query"]
    again = opened(root, "account", columns=",".join(own), p=2)
    assert [column.label for column in again.context["heads"]][-1] == "Id"
    assert len(again.context["subjects"]) == 45 - 40


@pytest.mark.slow
def test_a_column_or_filter_without_room_in_the_address_is_left_out_with_a_message(
    root: Client, acme_rows: Rows
) -> None:
    long_names = [f"trait:{WORDS[2] * 8}{number}" for number in range(20)]
    for form in ({"trait_column": "another"}, {}):
        page = opened(root, "account", column=long_names, **form)
        shown_columns = page.context["state"].columns
        assert 5 <= len(shown_columns) < 20
        assert f"A list has room for {len(shown_columns)} of these columns" in page.content.decode()
    # 20 names of 60 characters have room, and the way back from a row fits into a request.
    names = [f"trait:{'n' * 57}{number:03}" for number in range(20)]
    page = opened(root, "account", column=names, **{"trait.a": ":" * 512, "q": "acme"})
    assert page.context["state"].columns == tuple(names)
    assert "These filters are too long" in opened(root, "account", q="ライ" * 200).content.decode()
    worst = {f"trait.{number}": ":" * 500 for number in range(4)}
    Account.objects.update(traits={str(number): ":" * 500 for number in range(4)})
    page = opened(root, "account", **worst)
    (row,) = re.findall(r'field-name">.*?<a href="([^"]*)"', page.content.decode())
    assert 6_000 < len(row) < 8_000
    assert root.get(row.replace("&amp;", "&")).status_code == 200


def test_a_filtered_list_that_takes_too_long_says_so(
    root: Client, ranked: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_too_long(*_: Any) -> Any:
        raise sql.StatementTimeout

    parameters = {"segment": ranked.segment.pk, "active": "never"}
    monkeypatch.setattr(ListState, "page_size", 1)
    monkeypatch.setattr(list_rows.ListQuery, "_matching_rows", take_too_long)
    # The number of users is not known.
    page = opened(root, **parameters)
    assert "More than 1 users" in text_of(page) and page.context["next_query"]
    monkeypatch.setattr(list_rows.ListQuery, "_filtered_ids", take_too_long)
    assert "Sorting these users takes too long. Sort by score" in text_of(
        opened(root, **parameters)
    )


# --- Cells ----------------------------------------------------------------------------------


def test_a_row_says_what_matters(root: Client, customers: Rows) -> None:
    opened_at = opened(root, "account")
    page = re.sub(r"\s+", " ", opened_at.content.decode())
    acme, globex, _ = re.findall(r"<tr>(<th scope=\"row\".*?)</tr>", page)
    assert "acme.example" in acme and 'data-copy-text="acme-account"' in acme
    assert 'max="100" value="90"' in acme
    assert '<span class="eds-rise">+69.4</span>' in acme
    assert '<span class="eds-fall">\N{MINUS SIGN}78.4</span>' in globex
    assert "3 <small>of 9</small>" in acme
    assert "<time datetime=" in acme
    assert "Commercial <small>500 Users</small>" in globex
    assert "26 Mar 2026 <small>ended " in globex
    # Without the column of the renewal, that of the license has it. No line begins with a
    # separator.
    alone = opened(root, "account", column="license").content.decode()
    assert "Commercial\xa0· 500 Users <small>active\xa0· ended 26 Mar 2026</small>" in alone


def test_a_row_has_the_icons_of_its_most_serious_insights(root: Client, customers: Rows) -> None:
    customers.account.traits |= {"am.licenseType": "EVALUATION", "am.status": "active"}
    customers.account.save(update_fields=["traits"])
    page = opened(root, "account")
    rows = re.findall(r"<tr>(<th scope=\"row\".*?)</tr>", page.content.decode())
    icons = [re.findall(r"<title>(.*?)</title>", row) for row in rows]
    assert any(icons)
    for account, labels in zip(page.context["subjects"], icons, strict=True):
        (row,) = AccountEngagement.objects.filter(account=account).select_related("account")
        score_set = ScoreSet.objects.get()
        metrics = compute_account_metrics(row, score_set, AllTimeTotals(0, 0), account.traits)
        alarms = alarms_by_account(score_set, [account.pk]).get(account.pk, NO_ALARMS)
        of_page = account_insights(score_set, row, metrics, alarms, names_users=False)
        assert labels == [INSIGHTS[each.kind].label for each in of_page[:MAX_ICONS]]
    assert 'role="img"' not in opened(root).content.decode(), "users have no insights"


@each(
    ("days", "text"),
    [
        (0, "today"),
        (1, "in 1 day"),
        (-59, "59 days ago"),
        (60, "in 2 months"),
        (-729, "24 months ago"),
        (731, "in 2 years"),
    ],
)
def test_how_far_a_renewal_is(days: int, text: str) -> None:
    assert from_now(days) == text


def test_a_row_has_the_scores_of_the_last_30_days(root: Client, customers: Rows) -> None:
    score_set = ScoreSet.objects.get()
    DailyCount.objects.create(
        product=customers.product,
        user=customers.user,
        account_id=customers.account.pk,
        event_name=customers.event_name,
        day=NOON.date() - timedelta(days=20),
        count=40,
        last_at=NOON,
    )
    score_set.daily_benchmarks.create(day=NOON.date() - timedelta(days=40), accounts=200)
    page = opened(root, "account").content.decode()
    lines = re.findall(r'<path d="(M.*?)"/></svg></td>', page)
    # A week at 37, and the points of a row on the days that these are about.
    assert lines[0] == "M0 40h8l1 -15h6l1 15h4l1 -8l1 8h5l1 -36h1"
    assert lines[2] == "M0 40h21l1 -36l1 36h6"
    # The lines of the largest accounts are loaded later.
    AccountEngagement.objects.filter(raw=200).update(event_count=histories.MAX_COUNTS)
    html = opened(root, "account").content.decode()
    (part,) = re.findall(r'<div data-part-url="(.*?)">', html)
    assert len(re.findall(r'<path d="(M.*?)"/></svg></td>', html)) == 2
    assert lines[0] in root.get(part).content.decode()
    AccountEngagement.objects.all().delete()
    assert root.get(part).content == b""


def test_names_and_ids_stand_for_a_subject(root: Client, ranked: Rows) -> None:
    User.objects.filter(external_id="high").update(traits={"name": "Ada"})
    html = opened(root).content.decode()
    names = re.findall(r'<th scope="row" class="field-name"><a [^>]*>([^<]+)<', html)
    assert names == ["Ada", "acme-user", "low"]
    assert "acme-user@Example.com" in html and ">acme-account name</a>" in html


def test_a_person_chooses_the_columns(root: Client, customers: Rows) -> None:
    response = opened(root, "account", column=["change", "trait:plan"])
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', response.content.decode())
    assert [strip_tags(head) for head in heads] == ["Name", "Change", "plan"]
    assert ">pro</td>" in response.content.decode()
    added = opened(root, "account", column="change", trait_column="plan")
    assert added.redirect_chain[-1][0].endswith("&columns=change,trait:plan")


@each("unknown", ["nonsense", "account", "trait:"])
def test_an_unknown_column_says_so(root: Client, customers: Rows, unknown: str) -> None:
    page = opened(root, "account", columns=f"name,change,{unknown}", sort="name", p="2")
    assert page.context["state"].columns == ("name", "change")
    assert page.context["state"].sort == "name"
    assert f"The column “{unknown}” is not available" in page.content.decode()
    assert "not available" not in opened(root, "account", columns="name,mrr").content.decode()


def test_new_accounts_have_no_change(root: Client, customers: Rows) -> None:
    seen_at = NOON - timedelta(days=2)
    Account.objects.filter(external_id="acme-account").update(first_seen_at=seen_at)
    for sort in ("change", "-change"):
        page = opened(root, "account", sort=sort).content.decode()
        cells = re.findall(r'class="field-change"[^>]*>(.*?)</td>', page)
        assert cells[-1] == "New" and "New" not in cells[:-1]


def test_what_accounts_pay_is_a_column(root: Client, customers: Rows) -> None:
    page = opened(root, "account", column="mrr", sort="-mrr")
    cells = re.findall(r'class="[^"]*field-mrr[^>]*>(.*?)</td>', page.content.decode())
    assert (cells[0], set(cells[1:])) == ("1,234.00", {"on &lt;request&gt;", "–"})
    # What is no number is last in both directions.
    assert listed(root, "account", sort="mrr")[0] == "acme-account"
    chips = opened(root, "account", mrr="10000").context["chips"]
    assert [chip.label for chip in chips] == ["MRR: at least 100.00"]


def test_the_activity_of_accounts_is_a_column(root: Client, customers: Rows) -> None:
    assert "field-activity" not in opened(root, "account").content.decode()
    # A list that activity filters has it, in place of what the score did.
    page = opened(root, "account", activity="falling")
    assert "field-change" not in page.content.decode()
    (cell,) = re.findall(r'class="[^"]*field-activity[^>]*>(.*?)</td>', page.content.decode())
    assert strip_tags(cell) == "Falling since 4 Sep 2026"
    assert [chip.label for chip in page.context["chips"]] == ["Activity: falling"]


def test_the_last_license_event_of_accounts_is_a_column(root: Client, customers: Rows) -> None:
    page = opened(root, "account", columns="license_event", sort="name")
    cells = re.findall(r'class="[^"]*field-license_event[^>]*>(.*?)</td>', page.content.decode())
    texts = [strip_tags(cell) for cell in cells]
    assert texts == ["–", "Renewed 12 Apr 2026", "Churned 1 Mar 2026"]
    page = opened(root, "account", license_event="churned-30")
    (chip,) = page.context["chips"]
    assert chip.label == "License event: Churned, in the last 30 days"
    menus = {menu.label: menu for menu in page.context["menus"]}
    assert menus["License event"].choice == "Churned"
    times = menus["Happened"]
    assert times.choice == "In the last 30 days"
    assert [choice.value for choice in times.choices] == [
        *("churned", "churned-7", "churned-30", "churned-90", "churned-365"),
    ]


def test_the_chances_of_accounts_are_columns_where_there_are_some(
    root: Client, customers: Rows
) -> None:
    def choices() -> set[str]:
        page = opened(root, "account")
        columns = {name for name, *_ in page.context["choices"] if name.startswith("chance")}
        menus = {menu.name for menu in page.context["menus"] if menu.name.startswith("chance")}
        assert columns == menus
        return columns

    assert choices() == set()
    add_chance(customers.product, "globex", "renewal", 0.342, low=0.204, high=0.505, license="E-1")
    add_chance(customers.product, "globex", "renewal", 0.8, license="E-2")
    add_chance(customers.product, "initech", "renewal", 0.1, is_share=True)
    assert choices() == {"chance_to_renew"}
    page = opened(root, "account", columns="chance_to_renew", sort="chance_to_renew")
    html = page.content.decode()
    cells = re.findall(r'class="[^"]*field-chance_to_renew[^>]*>(.*?)</td>', html)
    # Those of whom nobody can tell are last, by their ids.
    names = [each.external_id for each in page.context["subjects"]]
    texts = dict(zip(names, map(strip_tags, cells), strict=True))
    assert names[0] == "globex"
    assert texts == {
        "globex": "34% (20 to 51%)",
        "initech": "Too few to tell",
        "acme-account": "–",
    }
    for value, text, rows in [
        ("below-35", "below 35%", ["globex"]),
        ("below-34", "below 34%", []),
        ("at_least-34", "at least 34%", ["globex"]),
        # The lowest counts.
        ("at_least-50", "at least 50%", []),
    ]:
        page = opened(root, "account", chance_to_renew=value)
        assert [each.external_id for each in page.context["subjects"]] == rows
        (chip,) = page.context["chips"]
        assert chip.label == f"Chance to renew: {text}"
        (menu,) = (menu for menu in page.context["menus"] if menu.name == "chance_to_renew")
        assert menu.choice == text.capitalize()
    assert "rule=" in page.context["segment_url"]
    for value in ("below-0", "below-101", "under-5", "below-"):
        page = opened(root, "account", chance_to_renew=value)
        assert page.context["chips"] == [] and INVALID_FILTER_MESSAGE in page.content.decode()


# --- Filters --------------------------------------------------------------------------------


@each(
    ("query", "names"),
    [
        ({"license_type": "COMMERCIAL"}, ["globex"]),
        ({"license_type": "none"}, ["acme-account"]),
        ({"license_status": "active"}, ["globex"]),
        ({"trait.plan": "pro"}, ["acme-account"]),
        ({"mrr": "123400"}, ["acme-account"]),
        ({"mrr": "none"}, ["initech"]),
        ({"active": "within-1"}, ["acme-account"]),
        ({"active": "before-4"}, ["globex"]),
        ({"active": "never"}, ["initech"]),
        ({"active": "within-30", "trait.plan": "free"}, ["globex"]),
        ({"insight": "renewal_at_risk"}, ["globex"]),
        ({"insight": "trend_up", "license_type": "none"}, ["acme-account"]),
        ({"activity": "falling"}, ["globex"]),
        ({"activity": "unknown"}, ["initech"]),
        ({"license_event": "churned"}, ["globex", "initech"]),
        ({"license_event": "churned-30"}, ["initech"]),
        ({"license_event": "churned-1"}, []),
        ({"license_event": "renewed"}, []),
        ({"q": "glob"}, ["globex"]),
        ({"trait_name": "plan", "trait_value": "free"}, ["globex"]),
    ],
)
def test_filters_combine(
    root: Client, customers: Rows, query: dict[str, str], names: list[str]
) -> None:
    index_for_search(customers.product)
    page = opened(root, "account", **query)
    assert [each.external_id for each in page.context["subjects"]] == names
    assert len(page.context["chips"]) == len([name for name in query if name != "q"]) or (
        "trait_name" in query
    )
    assert "Clear all" in text_of(page)


def test_chips_take_filters_away(root: Client, customers: Rows) -> None:
    page = opened(
        root, "account", **{"active": "within-30", "trait.plan": "pro", "sort": "name", "p": 1}
    )
    workspace = f"workspace={customers.workspace.pk}"
    assert [(chip.label, chip.query) for chip in page.context["chips"]] == [
        ("Last active: in the last 30 days", f"{workspace}&trait.plan=pro&sort=name"),
        ("plan: pro", f"{workspace}&active=within-30&sort=name"),
    ]
    assert page.context["clear_query"] == f"{workspace}&view=all&sort=name"
    html = page.content.decode()
    assert 'aria-label="Remove the filter plan: pro"' in html
    assert html.index('id="changelist-filter"') < html.index('id="result_list"')


@pytest.mark.slow
@each(
    "query",
    [
        {"active": "lately"},
        {"segment": "x"},
        {"sort": "traits"},
        {"insight": "anything"},
        {"mrr": "1.5"},
        {"p": "x"},
        {"view": "x"},
        {"nothing": "x"},
        {"trait." + "x" * 300: "1"},
    ],
)
def test_an_address_that_means_nothing_says_so(
    root: Client, ranked: Rows, query: dict[str, str]
) -> None:
    page = opened(root, **query)
    assert opened(root, "account", **query).context["chips"] == []
    assert "This filter is not available, so the list is not filtered." in page.content.decode()
    assert len(page.context["subjects"]) == 3


@each("query", [{"trait_name": "plan"}, {"trait_value": "pro", "trait_name": " "}])
def test_half_a_filter_says_so(root: Client, ranked: Rows, query: dict[str, str]) -> None:
    page = opened(root, **query)
    assert "A filter by a trait needs the trait and its value" in page.content.decode()
    # Also where the file is asked for.
    answer = root.get(reverse("admin:engagement_user_export"), query, follow=True)
    assert "A filter by a trait needs" in answer.content.decode()
    filtered_page = opened(root, trait_name="plan", trait_value="pro").content.decode()
    assert "needs the trait" not in filtered_page


@pytest.mark.parametrize("many", [1, 60])
def test_a_list_costs_the_same_queries_however_long(
    root: Client, ranked: Rows, django_assert_max_num_queries: Any, many: int
) -> None:
    for number in range(many):
        a_user(ranked.product, f"u{number}", ranked.workspace, ranked.account)
    address = reverse("admin:engagement_user_changelist")
    with django_assert_max_num_queries(25):
        root.get(address, {"workspace": ranked.workspace.pk, "segment": ranked.segment.pk})
    assert UserEngagement.objects.count() == many + 3


def test_a_filtered_list_becomes_a_segment(
    root: Client, member: Client, reader: Client, ranked: Rows
) -> None:
    User.objects.filter(external_id="high").update(traits={"plan": "pro"})
    query = {"trait.plan": "pro"}
    assert "segment_url" in opened(member).context and not opened(member).context["segment_url"]
    address = opened(member, **query).context["segment_url"]
    form = member.get(address).content.decode()
    assert 'value="plan"' in form and "<strong>1 user</strong> matches" in form
    # The conditions of a segment come along, and a viewer makes no segments.
    within = opened(member, segment=ranked.segment.pk, **query).context["segment_url"]
    assert within.count("kind") == 1 + len(ranked.segment.conditions)
    assert not opened(reader, **query).context["segment_url"]
    assert not opened(member, q="high", **query).context["segment_url"]
