"""The pages of users and accounts: scores, events, traits, and memberships."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from access.models import TrailEntry
from access.trail.scoring_changes import ACCEPTED, MAX_CHANGES
from console.subjects import subject_pages
from core import charts
from engagement.models import (
    Account,
    AccountEngagement,
    DailyBenchmark,
    DailyCount,
    Event,
    EventName,
    Membership,
    Product,
    ScoredEvent,
    ScoreSet,
    Seats,
    Segment,
    User,
    UserEngagement,
    Workspace,
)
from engagement.rescoring.rescore import rescore
from engagement.scores.history import EventPoints
from engagement.traits import Source, make_stamp
from tests.admin.rows import NOON, Rows, a_user, an_account
from tests.engagement.history import NOON as LATER
from tests.engagement.history import identify, tell, track
from tests.engagement.test_audiences import PAYING, is_about


def user_page(rows: Rows, **query: Any) -> str:
    return reverse("admin:engagement_user_change", args=[rows.user.pk], query=query)


def account_page(rows: Rows, **query: Any) -> str:
    return reverse("admin:engagement_account_change", args=[rows.account.pk], query=query)


def counted(rows: Rows, event: str = "acme event", count: int = 20) -> None:
    """The user did the event today, in the account."""
    name, _ = EventName.objects.get_or_create(product=rows.product, name=event)
    DailyCount.objects.create(
        product=rows.product,
        user=rows.user,
        account_id=rows.account.pk,
        event_name=name,
        day=NOON.date(),
        count=count,
        last_at=NOON,
    )


def second_workspace(rows: Rows, raw: int = 5) -> Workspace:
    """Another workspace of the product, in which the user has *raw* points."""
    workspace = Workspace.objects.create(product=rows.product, name="Second")
    workspace.scores = ScoreSet.objects.create(
        product=rows.product,
        workspace=workspace,
        state=ScoreSet.State.CURRENT,
        lookback_days=30,
        default_weight=1,
        scored_day=NOON.date(),
        user_benchmark=5,
    )
    workspace.save(update_fields=["scores"])
    UserEngagement.objects.create(
        product=rows.product,
        score_set=workspace.scores,
        user=rows.user,
        raw=raw,
        event_count=raw,
        active_days=1,
    )
    return workspace


def test_a_page_breaks_down_the_score(root: Client, acme_rows: Rows) -> None:
    assert acme_rows.workspace.scores is not None
    ScoredEvent.objects.create(
        score_set=acme_rows.workspace.scores, event_name=acme_rows.event_name, weight=5
    )
    counted(acme_rows)
    counted(acme_rows, "another", 3)
    for address in (user_page(acme_rows), account_page(acme_rows)):
        summary = root.get(address).context["summary"]
        assert [(row.points.name, row.points.points) for row in summary.events] == [
            ("acme event", 100),
            ("another", 3),
        ]


@pytest.mark.parametrize("page", [user_page, account_page])
def test_a_page_of_a_half_life_has_points_of_today(
    root: Client, acme_rows: Rows, page: Any
) -> None:
    counted(acme_rows)
    ScoreSet.objects.filter(workspace=acme_rows.workspace).update(
        lookback_days=30, half_life_days=60, reference_day=NOON.date() - timedelta(days=60)
    )
    response = root.get(page(acme_rows, people="all"))
    assert [row.points.points for row in response.context["summary"].events] == [20]


def test_a_page_draws_the_score_of_the_last_ninety_days(root: Client, acme_rows: Rows) -> None:
    assert acme_rows.workspace.scores is not None
    DailyBenchmark.objects.create(
        score_set=acme_rows.workspace.scores, day=NOON.date(), users=100, accounts=200
    )
    html = root.get(user_page(acme_rows)).content.decode()
    assert "Score over the last 90 days" in html and "Score: 90 on 2 Mar" in html


@pytest.mark.parametrize(("page", "counts"), [(user_page, (30, 90)), (account_page, (30, 90, 365))])
def test_a_person_chooses_the_days_of_the_chart(
    reader: Client, acme_rows: Rows, page: Any, counts: tuple[int, ...]
) -> None:
    workspace = acme_rows.workspace.pk
    for count in counts:
        html = reader.get(page(acme_rows, workspace=workspace, days=count)).content.decode()
        chart = html.split('<figure class="eds-chart')[1].split("</figure>")[0]
        assert chart.count('<th scope="row">') == count
        links = unescape(chart.split("</nav>")[0])
        assert re.findall(r'href="(.*?)"', links) == [
            f"?workspace={workspace}&days={each}" for each in counts
        ]
        assert f'days={count}" aria-current="true">' in links
        # Scores are kept for 90 days, and what is not known is no zero.
        assert chart.count("<td>–</td>") == max(0, count - 90)
        assert ("Scores go back 90 days." in html) == (count > 90)
    for nonsense in ("", "31", "x", "-1"):
        html = reader.get(page(acme_rows, days=nonsense)).content.decode()
        assert 'days=90" aria-current="true">' in html


def changed_scoring(
    rows: Rows, days_ago: int, *fields: str, person: str = "maya", note: str = ""
) -> None:
    TrailEntry.objects.create(
        at=NOON - timedelta(days=days_ago),
        product=rows.product,
        person=person,
        action=TrailEntry.Action.CHANGED,
        kind="workspace",
        object_id=str(rows.workspace.pk),
        note=note,
        changes={field: [1, 2] for field in fields},
    )


@pytest.mark.parametrize("page", [user_page, account_page])
def test_the_chart_marks_changes_of_the_scoring(reader: Client, acme_rows: Rows, page: Any) -> None:
    assert "eds-chart-mark" not in reader.get(page(acme_rows)).content.decode()
    changed_scoring(acme_rows, 90, "default_weight")
    changed_scoring(acme_rows, 89, "default_weight", "audience", "lookback_days", person="")
    for _ in range(2):
        changed_scoring(acme_rows, 1, "weight of opened", note=f"{ACCEPTED}: renewals.")
    # What is no definition, of another workspace, or younger than the scores.
    changed_scoring(acme_rows, 3, "name", "outcomes", "alarm_level")
    changed_scoring(acme_rows, -1, "default_weight")
    TrailEntry.objects.create(
        at=NOON, kind="workspace", object_id="0", action="changed", changes={"audience": [1, 2]}
    )
    html = unescape(reader.get(page(acme_rows)).content.decode())
    chart, _, below = html[html.index('<figure class="eds-chart') :].partition("</figure>")
    assert below.lstrip().startswith('<p class="quiet">All days are scored alike')
    assert chart.count("eds-chart-mark") == 2
    # For screen readers, in the list below the drawing, and in the table, which a pointer reads.
    assert "1 Mar: maya accepted suggested weights." in chart.split("</desc>")[0]
    marks = re.findall(r"<b>(.*?)</b> (.*?)</li>", chart)
    assert marks == [
        ("3 Dec", "Somebody changed weights, window and audience"),
        ("1 Mar", "maya accepted suggested weights"),
    ]
    assert re.search(r"1 Mar</th>.*?<td>maya accepted suggested weights</td></tr>", chart)


def test_a_chart_has_a_bounded_number_of_marks(reader: Client, acme_rows: Rows) -> None:
    for days_ago in range(60):
        changed_scoring(acme_rows, days_ago, "default_weight")
    html = reader.get(user_page(acme_rows)).content.decode()
    assert html.count("eds-chart-mark") == MAX_CHANGES
    assert "<b>2 Mar</b> maya changed weights" in html
    assert f"<li>{MAX_CHANGES - charts.MAX_MARKS_SAID} earlier in the table</li>" in html


def test_what_moved_the_score_most_comes_first() -> None:
    def points(name: str, points: int, yesterday: int, before: int) -> EventPoints:
        return EventPoints(name, 1, 1, points, yesterday, before)

    events = [points("most", 90, 5, 5), points("fell", 1, 0, 40), points("rose", 2, 30, 0)]
    events += [points("few", 3, 5, 5)]
    names = [each.points.name for each in subject_pages.by_difference(events)]
    assert names == ["fell", "rose", "most", "few"]


@pytest.mark.parametrize("page", [user_page, account_page])
def test_six_metrics_are_shown_and_the_others_folded(
    reader: Client, acme_rows: Rows, page: Any
) -> None:
    html = reader.get(page(acme_rows)).content.decode()
    first, rest = html.split('<dl class="eds-metrics">')[1:3]
    assert first.count("<dt>") == 6 and 'class="eds-more-metrics"' in first
    assert "<dt>Last active</dt>" in first and "<dt>Raw score</dt>" in first + rest


def test_metrics_have_labels_that_people_read(root: Client, acme_rows: Rows) -> None:
    counted(acme_rows)
    of_user = dict(root.get(user_page(acme_rows)).context["summary"].metrics)
    assert of_user["Raw score"] == "100 points"
    assert of_user["Active days in the window"] == "2"
    assert of_user["Scored events of all time"] == "20"
    assert "Active users" not in of_user
    of_account = dict(root.get(account_page(acme_rows)).context["summary"].metrics)
    assert of_account["Active users"] == "2"
    assert of_account["Seat utilization"] == "–"


def test_who_has_no_points_is_compared_with_nobody(root: Client, acme_rows: Rows) -> None:
    UserEngagement.objects.update(raw=0)
    of_user = dict(root.get(user_page(acme_rows)).context["summary"].metrics)
    assert of_user["Percentile"] == "No points in the window"


def test_a_page_names_the_segments(root: Client, acme_rows: Rows) -> None:
    response = root.get(user_page(acme_rows))
    # Its conditions: the event was not done, and the trait "plan" is set.
    assert "acme segment" in [row.name for row in response.context["summary"].segments]
    counted(acme_rows)
    response = root.get(user_page(acme_rows))
    assert "acme segment" not in [row.name for row in response.context["summary"].segments]


def test_a_segment_whose_rule_cannot_be_used_is_passed_over(root: Client, acme_rows: Rows) -> None:
    Segment.objects.filter(pk=acme_rows.segment.pk).update(conditions=[{"kind": "of old"}])
    assert root.get(user_page(acme_rows)).status_code == 200


def test_a_workspace_is_chosen_by_a_link(root: Client, acme_rows: Rows) -> None:
    second = second_workspace(acme_rows)
    first = root.get(user_page(acme_rows))
    assert first.context["summary"].score == "90.0"
    link = f"?workspace={second.pk}"
    assert f'href="{user_page(acme_rows)}{link}"' in first.content.decode()
    assert root.get(user_page(acme_rows) + link).context["workspace"] == second


def test_a_page_says_that_there_are_no_scores_yet(root: Client, acme_rows: Rows) -> None:
    Workspace.objects.update(scores=None)
    for address in (user_page(acme_rows), account_page(acme_rows)):
        assert "has no scores yet" in root.get(address).content.decode()
    Workspace.objects.update(scores=acme_rows.workspace.scores)
    ScoreSet.objects.update(scored_day=None)
    for address in (user_page(acme_rows), account_page(acme_rows)):
        assert "has no scores yet" in root.get(address).content.decode()


def test_a_page_says_why_there_is_no_score(root: Client, acme_rows: Rows) -> None:
    UserEngagement.objects.all().delete()
    assert "This user has no score here yet" in root.get(user_page(acme_rows)).content.decode()
    ScoreSet.objects.update(audience={"match": "all", "conditions": []} | {"some": "rule"})
    assert "this workspace has an audience" in root.get(user_page(acme_rows)).content.decode()


def test_a_product_without_a_workspace_scores_nothing(root: Client, acme_rows: Rows) -> None:
    Workspace.objects.all().delete()
    for address in (user_page(acme_rows), account_page(acme_rows)):
        assert "This product has no workspace" in root.get(address).content.decode()


def test_a_trait_says_where_it_comes_from_and_when(root: Client, acme_rows: Rows) -> None:
    account = acme_rows.account
    account.traits = {"plan": "pro", "am.tier": "10 users", "old": 1}
    account.trait_stamps = {
        "plan": make_stamp(NOON, 1),
        "am.tier": make_stamp(NOON + timedelta(days=1), 2, Source.MARKETPLACE),
    }
    account.save(update_fields=["traits", "trait_stamps"])
    response = root.get(account_page(acme_rows))
    assert [(row.name, row.source, row.at) for row in response.context["traits"].rows] == [
        ("old", "", None),
        ("plan", "API", NOON),
    ]
    (licensed,) = response.context["license_traits"].rows
    assert (licensed.source, licensed.at) == ("Marketplace", NOON + timedelta(days=1))
    assert ">Marketplace license</h2>" in response.content.decode()
    assert "Marketplace license" not in root.get(user_page(acme_rows)).content.decode()


def test_a_page_shows_a_bounded_number_of_traits_and_cuts_long_values(
    root: Client, acme_rows: Rows
) -> None:
    account = acme_rows.account
    account.traits = {f"trait {number:04}": "x" * 2000 for number in range(1000)}
    account.traits |= {f"am.of a vendor {number}": 1 for number in range(300)}
    account.save(update_fields=["traits"])
    html = root.get(account_page(acme_rows)).content.decode()
    assert "trait 0099" in html and "trait 0100" not in html
    assert ">900 more." in html and ">200 more." in html
    assert "x" * 500 + "… (1,500 more characters)" in html
    assert len(html) < 200_000


def test_an_account_page_says_what_is_worth_knowing(root: Client, acme_rows: Rows) -> None:
    account = acme_rows.account
    renewal = (NOON + timedelta(days=30)).date().isoformat()
    account.traits = {"am.tier.number": 100, "am.maintenanceEndDate": renewal, "mrr": 123400}
    account.save(update_fields=["traits"])
    ScoreSet.objects.update(seats=Seats.APP)
    html = root.get(account_page(acme_rows)).content.decode()
    assert '<li class="notice">Only 2 of 100 licensed seats are active (2%). MRR: 1,234.00.' in html
    assert "<dt>MRR</dt><dd>1,234.00</dd>" in html
    assert "eds-insights" not in root.get(user_page(acme_rows)).content.decode()


def store_event(rows: Rows, arrival: int, **columns: Any) -> None:
    Event.objects.create(
        **{
            "product": rows.product,
            "user": rows.user,
            "event_name": rows.event_name,
            "occurred_at": NOON + timedelta(minutes=arrival),
            "received_at": NOON,
            "arrival": arrival,
            **columns,
        }
    )


def test_a_user_page_shows_the_last_twenty_events(root: Client, acme_rows: Rows) -> None:
    for arrival in range(22):
        store_event(acme_rows, arrival, account=acme_rows.account if arrival % 2 else None)
    response = root.get(user_page(acme_rows))
    minutes = [(event.at - NOON).seconds / 60 for event in response.context["events"]]
    assert minutes == list(range(21, 1, -1))
    assert [event.counterpart for event in response.context["events"][:2]] == [
        "acme-account name",
        "",
    ]
    html = response.content.decode()
    account = account_page(acme_rows, workspace=acme_rows.workspace.pk)
    assert f'<a href="{account}">acme-account name</a></td>' in html
    assert "Only the latest 20 are shown." in html


def done_in_account(rows: Rows, *events: tuple[str, str, int]) -> None:
    """Events in the account, as (user, event, minutes after noon)."""
    for number, (name, event, minute) in enumerate(events):
        user = User.objects.filter(external_id=name).first()
        user = user or a_user(rows.product, name, rows.workspace, rows.account)
        event_name, _ = EventName.objects.get_or_create(product=rows.product, name=event)
        at = NOON + timedelta(minutes=minute)
        store_event(
            rows, number, user=user, event_name=event_name, occurred_at=at, account=rows.account
        )
        DailyCount.objects.update_or_create(
            product=rows.product,
            user=user,
            account_id=rows.account.pk,
            event_name=event_name,
            day=at.date(),
            defaults={"last_at": at},
            create_defaults={"last_at": at, "count": 1},
        )


def events_of(client: Client, rows: Rows) -> list[tuple[str, int]]:
    """The account's latest events, as (user, minutes after noon)."""
    events = client.get(account_page(rows)).context["events"]
    return [(event.counterpart, (event.at - NOON) // timedelta(minutes=1)) for event in events]


def test_an_account_page_shows_the_last_twenty_events_of_all_its_users(
    root: Client, acme_rows: Rows
) -> None:
    # One busy user, many others, and days between events, in order of time.
    events = [("busy", "opened", minute) for minute in range(-10, 0)]
    events += [(f"user {minute}", "opened", minute) for minute in range(12)]
    events += [("busy", "shared", 20), ("ann", "opened", 3 * 1440), ("busy", "opened", 4 * 1440)]
    done_in_account(acme_rows, *events)
    assert events_of(root, acme_rows) == [(who, minute) for who, _, minute in events[:-21:-1]]


def test_what_users_did_in_other_accounts_is_not_an_accounts_event(
    root: Client, acme_rows: Rows
) -> None:
    done_in_account(acme_rows, ("ann", "opened", 1))
    before = an_account(acme_rows.product, "before", acme_rows.workspace)
    ann = User.objects.get(external_id="ann")
    store_event(acme_rows, 100, user=ann, account=before)
    store_event(acme_rows, 101, user=ann, account=None)
    assert events_of(root, acme_rows) == [("ann", 1)]


def test_what_strangers_did_is_no_accounts_event_yet(root: Client, acme_rows: Rows) -> None:
    done_in_account(acme_rows, ("ann", "opened", 1), ("bob", "opened", 2))
    User.objects.filter(external_id="bob").update(is_identified=False)
    assert events_of(root, acme_rows) == [("ann", 1)]


def test_an_account_without_events_says_so(root: Client, acme_rows: Rows) -> None:
    assert (
        b"No single events are stored for this account."
        in root.get(account_page(acme_rows)).content
    )


def test_a_user_page_shows_every_account_that_the_user_was_in(
    root: Client, acme_rows: Rows
) -> None:
    before = an_account(acme_rows.product, "before", acme_rows.workspace)
    for place, account in enumerate([before, before, acme_rows.account]):
        Membership.objects.create(
            product=acme_rows.product,
            user=acme_rows.user,
            account=account,
            occurred_at=NOON + timedelta(days=place),
            arrival=place,
        )
    accounts = root.get(user_page(acme_rows)).context["accounts"]
    assert [(row.name, row.is_current) for row in accounts] == [
        ("acme-account name", True),
        ("before name", False),
    ]
    assert accounts[1].first_seen_at == NOON


def test_a_user_was_last_active_in_an_account_when_they_did_something_there(
    root: Client, acme_rows: Rows
) -> None:
    named = {"product": acme_rows.product, "user": acme_rows.user, "account": acme_rows.account}
    Membership.objects.create(**named, occurred_at=NOON + timedelta(days=9), arrival=1)
    (stay,) = root.get(user_page(acme_rows)).context["accounts"]
    assert stay.last_active_at is None
    counted(acme_rows)
    (stay,) = root.get(user_page(acme_rows)).context["accounts"]
    assert stay.last_active_at == NOON


def test_an_account_that_only_events_have_named_has_no_link(root: Client, acme_rows: Rows) -> None:
    Membership.objects.create(
        product=acme_rows.product,
        user=acme_rows.user,
        account=acme_rows.account,
        occurred_at=NOON,
        arrival=1,
    )
    type(acme_rows.account).objects.update(is_identified=False)
    (stay,) = root.get(user_page(acme_rows)).context["accounts"]
    assert stay.url == ""


def test_an_account_ranks_its_users_in_the_chosen_workspace(root: Client, acme_rows: Rows) -> None:
    second = second_workspace(acme_rows, raw=1)
    assert second.scores is not None
    AccountEngagement.objects.create(
        product=acme_rows.product,
        score_set=second.scores,
        account=acme_rows.account,
        raw=1,
        event_count=1,
        active_days=1,
        active_users=1,
        total_users=1,
    )
    people = root.get(account_page(acme_rows, workspace=second.pk)).context["people"]
    page = user_page(acme_rows, workspace=second.pk)
    assert [(row.url, row.score) for row in people.rows] == [(page, "36.9")]


def test_an_account_lists_the_users_whom_it_counts(root: Client, acme: Product) -> None:
    tell(acme, *(identify(name, -240, "initech") for name in ("ann", "bob", "cyd", "dan")))
    tell(acme, track("ann", "opened", -1), track("bob", "opened", -1))
    # Bob and Cyd moved to another account. Only Bob has an event in this one.
    tell(acme, identify("bob", 0, "hooli"), identify("cyd", 0, "hooli"))
    rescore(LATER)
    account = Account.objects.get(external_id="initech")
    page = reverse("admin:engagement_account_change", args=[account.pk])
    response = root.get(page, {"people": "all"})
    assert [(row.name, row.is_gone) for row in response.context["people"].rows] == [
        ("bob", True),
        ("ann", False),
        ("dan", False),
    ]
    assert dict(response.context["summary"].metrics)["Total users"] == "3"
    assert dict(response.context["summary"].metrics)["Share of active users"] == "67%"


def test_an_account_of_an_audience_lists_its_users_of_the_audience(
    root: Client, acme: Product
) -> None:
    tell(acme, identify("ann", -240, "initech", plan="pro"), identify("bob", -240, "initech"))
    is_about(acme, PAYING)
    rescore(LATER)
    account = Account.objects.get(external_id="initech")
    page = reverse("admin:engagement_account_change", args=[account.pk])
    response = root.get(page, {"people": "all"})
    assert [row.name for row in response.context["people"].rows] == ["ann"]
    assert dict(response.context["summary"].metrics)["Total users"] == "1"


@pytest.mark.parametrize("page", [user_page, account_page])
def test_no_workspace_of_another_product_is_taken(
    root: Client, member: Client, acme_rows: Rows, globex_rows: Rows, page: Any
) -> None:
    for who in (root, member):
        for workspace_id in (globex_rows.workspace.pk, 0, -1, "", "x", "9" * 30, "\x00"):
            answer = who.get(page(acme_rows, workspace=workspace_id))
            assert answer.status_code == 404
            assert b"Globex" not in answer.content
    own = member.get(page(acme_rows, workspace=acme_rows.workspace.pk))
    assert own.status_code == 200 and b"Globex" not in own.content


@pytest.mark.parametrize(("page", "budget"), [(user_page, 23), (account_page, 36)])
@pytest.mark.parametrize("many", [1, 30])
def test_a_page_costs_the_same_queries_however_much_is_known(
    root: Client,
    acme_rows: Rows,
    django_assert_max_num_queries: Any,
    page: Any,
    budget: int,
    many: int,
) -> None:
    for number in range(many):
        counted(acme_rows, f"event {number}")
        Workspace.objects.create(product=acme_rows.product, name=f"Workspace {number}")
        store_event(acme_rows, number, account=acme_rows.account)
    with django_assert_max_num_queries(budget):
        assert root.get(page(acme_rows)).status_code == 200
