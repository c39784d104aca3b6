"""What happened to an account and to a user, against plain models of the same words."""

from collections import Counter
from datetime import date, datetime, timedelta
from itertools import groupby, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from access.models import TrailEntry
from core.database import sql
from engagement.models import (
    Account,
    AccountEngagement,
    AccountNote,
    AlarmWork,
    Product,
    Segment,
    TraitChange,
    User,
    UserEngagement,
    Workspace,
)
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.rescoring.rescore import rescore
from engagement.scores.history import DayScore
from marketplace.models import LicenseEvent
from outcomes.models import LicenseOutcome
from tests.admin.conftest import root
from tests.cases import examples, leaves_no_rows
from tests.engagement.alarms.rows import alarm
from tests.engagement.history import NOON, at, group, identify, tell, track
from tests.readapi.conftest import Reads, acme_reads
from tests.readapi.scored import account_id, fill, user_id
from trends.models import SegmentMove
from trends.timeline import sources
from trends.timeline.entries import Entry, EntryKind
from trends.timeline.moves_of_scores import MOVE_DAYS, MOVE_POINTS, score_moves
from trends.timeline.reading import timeline

__all__ = ["acme_reads", "root"]

pytestmark = pytest.mark.django_db
TODAY = NOON.date()
DAY = 24


def read(workspace: Workspace, name: str = "initech", *kinds: EntryKind) -> list[Entry]:
    workspace = Workspace.objects.select_related("scores").get(pk=workspace.pk)
    account = Account.objects.get(product=workspace.product_id, external_id=name)
    row = AccountEngagement.objects.get(score_set=workspace.scores_id, account=account)
    row.account = account
    return timeline(workspace, row, TODAY, kinds)


def texts(entries: list[Entry]) -> list[tuple[str, str]]:
    return [(f"{entry.day:%m-%d}", entry.text) for entry in entries]


@pytest.fixture
def workspace(acme: Product) -> Workspace:
    return fill(acme)


# --- People ---------------------------------------------------------------------------------

_USERS, _ACCOUNTS = ("ann", "bob", "cyd", "dan"), ("initech", "hooli")
_CALLS = st.lists(
    st.tuples(
        st.sampled_from(_USERS), st.sampled_from((*_ACCOUNTS, None)), st.integers(-400 * DAY, 0)
    ),
    min_size=1,
    max_size=25,
    unique_by=lambda call: call[2],
)


@examples(12)
@given(calls=_CALLS, order=st.randoms())
@leaves_no_rows
def test_people_come_and_go_as_messages_say_in_whatever_order_they_arrive(
    acme: Product, calls: list[tuple[str, str | None, int]], order: Any
) -> None:
    late = list(calls)
    order.shuffle(late)
    tell(acme, group("initech", -500 * DAY, name="Initech"))
    for user, account, hours in late:
        tell(acme, identify(user, hours, account))
    rescore(NOON)
    workspace = Workspace.objects.get(product=acme)
    came, went = plain_people(calls, "initech")
    for type, expected in (("came", came), ("last_seen", went)):
        entries = [e for e in read(workspace, "initech", EntryKind.PEOPLE) if e.type == type]
        numbers = {entry.day: int(entry.text.split()[0]) for entry in entries}
        assert numbers == expected, type
        for entry in entries:
            assert len(entry.who.split(", ")) == min(numbers[entry.day], 4)


def plain_people(
    calls: list[tuple[str, str | None, int]], account: str
) -> tuple[Counter[date], Counter[date]]:
    """The days on which users came to the account where they are, and on which they were last
    seen."""
    came: Counter[date] = Counter()
    went: Counter[date] = Counter()
    for user in _USERS:
        own = sorted((hours, name) for who, name, hours in calls if who == user)
        places = [(hours, name) for hours, name in own if name]
        if not places or places[-1][1] != account:
            continue
        stays = [list(run) for _, run in groupby(places, key=lambda place: place[1])]
        since = own[0][0] if len(stays) == 1 else stays[-1][0][0]
        came[at(since).date()] += 1
        if at(own[-1][0]).date() <= TODAY - sources.GONE_AFTER:
            went[at(own[-1][0]).date()] += 1
    first = TODAY - sources.SPAN
    return (
        Counter({day: n for day, n in came.items() if day >= first}),
        Counter({day: n for day, n in went.items() if day >= first}),
    )


def test_many_users_of_a_day_are_one_entry_and_a_forgotten_one_is_none(
    acme: Product, workspace: Workspace
) -> None:
    names = [f"u{number}" for number in range(9)]
    tell(acme, *(identify(name, -40 * DAY, "initech", name=name.upper()) for name in names))
    rescore(NOON)
    (last, _, *_) = read(workspace, "initech", EntryKind.PEOPLE)
    assert (last.text, last.who) == (
        "9 users were seen for the last time",
        "U0, U1, U2, and 6 more",
    )
    for name in names[:8]:
        forgetting.forget(SubjectRef(acme.pk, SubjectScope.USER, name), NOON, suppress=True)
    last, came, *_ = read(workspace, "initech", EntryKind.PEOPLE)
    assert (last.text, last.who) == ("1 user was seen for the last time", "U8")
    assert (came.text, came.who) == ("1 user came", "U8")


def test_people_are_found_by_the_index_of_accounts(acme: Product, workspace: Workspace) -> None:
    tell(acme, *(identify(f"u{n}", -n, "hooli") for n in range(800)))
    sql.execute("ANALYZE engagement_user")
    parameters: dict[str, Any] = {"product": acme.pk, "names": 3}
    parameters["accounts"] = [account_id(acme, "initech")]
    parameters |= {"first_day": TODAY - sources.SPAN, "gone_on": TODAY}
    plan = "\n".join(line for (line,) in sql.fetch(f"EXPLAIN {sources._PEOPLE}", parameters))
    assert "account_id" in plan and "Seq Scan" not in plan


# --- Scores ---------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0.0, 4.0, 9.9, 10.0, 20.0, 55.5]), min_size=1, max_size=40))
def test_a_score_moves_where_a_week_makes_enough_points(scores: list[float]) -> None:
    days = [DayScore(TODAY + timedelta(days=n), score) for n, score in enumerate(scores)]
    expected = []
    changes = [now - before for before, now in zip(scores, scores[MOVE_DAYS:], strict=False)]
    directions = [
        0 if abs(change) < MOVE_POINTS - 0.01 else (1 if change > 0 else -1) for change in changes
    ]
    place = 0
    for direction, run in groupby(directions):
        length = len(list(run))
        if direction and place:
            first, last = days[place], days[place + length - 1 + MOVE_DAYS]
            expected.append((first, last, days[place + MOVE_DAYS], direction > 0))
        place += length
    moves = [(m.since, m.until, m.noticed, m.is_rise) for m in score_moves(days)]
    assert moves == expected


def test_a_move_of_a_score_says_from_where_to_where(acme: Product, workspace: Workspace) -> None:
    tell(acme, *(track("ann", "shared", hours=-DAY * (20 + n)) for n in range(9)))
    rescore(NOON)
    entries = read(workspace, "initech", EntryKind.SCORE)
    assert {entry.type for entry in entries} == {"rose", "fell"}
    assert all(entry.day < TODAY for entry in entries)
    for entry in entries:
        verb, start, end = entry.text.split()[1], *map(float, entry.text.split()[3:6:2])
        assert (end > start) == (verb == "rose") == entry.is_good


# --- The others -----------------------------------------------------------------------------


@pytest.fixture
def full_workspace(acme: Product, workspace: Workspace) -> Workspace:
    """A workspace with an entry of each kind about initech, and some about others."""
    initech, hooli = (
        AccountEngagement.objects.get(account__external_id=name) for name in ("initech", "hooli")
    )
    since = TODAY - timedelta(days=30)
    alarm(initech, "fall", since=since, outcome="recovered", ended_on=TODAY - timedelta(days=20))
    alarm(initech, "fall", since=TODAY - timedelta(days=3), is_stopped=True)
    alarm(initech, "rise", since=TODAY - timedelta(days=9), outcome="replaced")
    alarm(initech, "fall", since=TODAY - timedelta(days=8), level=4)
    alarm(initech, "leaving", since=TODAY - timedelta(days=5))
    alarm(hooli, "rise", since=TODAY - timedelta(days=2))
    segment = Segment.objects.filter(workspace=workspace, scope="account").first()
    assert segment is not None
    for subject, day, is_entry in (
        (initech.account_id, 4, False),
        (initech.account_id, 90, True),
        (initech.account_id, 400, True),
        (hooli.account_id, 4, True),
    ):
        SegmentMove.objects.create(
            product=acme,
            scope="account",
            subject_id=subject,
            segment_id=segment.pk,
            day=TODAY - timedelta(days=day),
            is_entry=is_entry,
        )
    license_event(acme, "E-1", "seats_up", 10, {"from": 25, "to": 40})
    license_event(acme, "E-1", "renewed", 50)
    license_event(acme, "E-2", "churned", 60, cloud_id="hooli")
    own = {"product": acme, "license": "E-1", "cloud_id": "initech", "exclusion": ""}
    for ago, exclusion in ((50, ""), (140, "sandbox")):
        decided = TODAY - timedelta(days=ago)
        LicenseOutcome.objects.create(
            **(own | {"exclusion": exclusion}),
            kind="renewal",
            began_on=decided - timedelta(days=365),
            day=decided,
            known_on=decided,
            result="renewed",
        )
    TraitChange.objects.create(
        product=acme,
        account_id=initech.account_id,
        name="plan",
        day=TODAY - timedelta(days=7),
        value="pro",
        at=NOON,
        previous="free",
    )
    entry = TrailEntry.objects.create(
        at=NOON - timedelta(days=6),
        kind="workspace",
        object_id=str(workspace.pk),
        action=TrailEntry.Action.CHANGED,
        person="maya",
        product_id=acme.pk,
        changes={"weight of opened": ["1", "5"], "lookback_days": ["7", "30"]},
    )
    assert entry.pk
    AccountNote.objects.create(
        product=acme, account_id=initech.account_id, author="maya", text="Ann called.",
        written_at=NOON - timedelta(days=9),
    )  # fmt: skip
    closed_at = NOON - timedelta(days=8)
    AlarmWork.objects.create(
        product=acme, workspace=workspace, account_id=initech.account_id, signal="fall",
        since=TODAY - timedelta(days=30), seen_on=TODAY - timedelta(days=21), result="saved",
        closed_by="maya", closed_at=closed_at,
    )  # fmt: skip
    return workspace


def license_event(
    product: Product, license: str, type: str, days: int, details: Any = None, **fields: Any
) -> None:
    day = TODAY - timedelta(days=days)
    LicenseEvent.objects.create(
        **{"cloud_id": "initech", **fields},
        product=product,
        license=license,
        type=type,
        anchor=str(days),
        date=day,
        known_on=day,
        details=details or {},
        sources=["sync"],
        recorded_at=NOON,
        changed_at=NOON,
    )


def test_everything_that_is_stored_is_told_once_the_latest_day_first(
    full_workspace: Workspace,
) -> None:
    entries = read(full_workspace)
    others = [e for e in entries if e.kind not in (EntryKind.SCORE, EntryKind.PEOPLE)]
    segment = Segment.objects.filter(workspace=full_workspace, scope="account").first()
    assert texts(others) == [
        ("09-21", "Activity stopped: 4 active user-days in 2 weeks, 18 usual"),
        ("09-20", f"Left the segment {segment}"),
        ("09-19", "Users leaving: 2 of 5 regular users are quiet"),
        ("09-18", "Weights and window changed"),
        ("09-17", "plan: free → pro"),
        ("09-16", "Activity falling closed as “saved”"),
        ("09-15", "Note"),
        ("09-14", "Seats added: 25 → 40"),
        ("09-04", "Activity falling: back to usual, after 10 days"),
        ("08-25", "Activity falling: 4 active user-days in 2 weeks, 18 usual"),
        ("08-05", "Renewed"),
        ("08-05", "Term since 5 Aug 2025 counts as renewed"),
        ("06-26", f"Entered the segment {segment}"),
    ]
    assert [entry.position for entry in entries] == sorted(
        {entry.position for entry in entries}, reverse=True
    )
    assert next(e.who for e in others if e.kind == EntryKind.SCORING) == "by maya"
    work = [entry.who for entry in others if entry.kind == EntryKind.WORK]
    assert work == ["by maya", "maya: Ann called."]


def test_each_kind_is_read_alone_and_what_is_withdrawn_or_edited_is_gone(
    full_workspace: Workspace,
) -> None:
    entries = read(full_workspace)
    for kind in EntryKind:
        assert read(full_workspace, "initech", kind) == [
            entry for entry in entries if entry.kind == kind
        ]
    LicenseEvent.objects.filter(type="seats_up").update(withdrawn_at=NOON)
    Segment.objects.filter(workspace=full_workspace, scope="account").delete()
    rest = {entry.type for entry in read(full_workspace)}
    assert "renewed" in rest
    assert not rest & {"seats_up", "entered", "left"}


def test_a_forgotten_account_leaves_nothing_to_tell(
    acme: Product, full_workspace: Workspace
) -> None:
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "initech"), NOON, suppress=False)
    tell(acme, identify("new", 0, "initech"), group("initech", name="Again"))
    rescore(NOON)
    # A marketplace that still lists the license tells of it again.
    kinds = {entry.kind for entry in read(full_workspace)}
    assert kinds <= {EntryKind.PEOPLE, EntryKind.SCORING, EntryKind.LICENSE, EntryKind.OUTCOME}


def test_a_user_has_scores_segments_and_the_accounts_that_they_came_to(
    acme: Product, full_workspace: Workspace
) -> None:
    tell(acme, identify("ann", -2 * DAY, "hooli"))
    rescore(NOON)
    workspace = Workspace.objects.select_related("scores").get(pk=full_workspace.pk)
    user = User.objects.get(external_id="ann")
    row = UserEngagement.objects.get(score_set=workspace.scores_id, user=user)
    entries = timeline(workspace, row, TODAY, [EntryKind.PEOPLE])
    assert texts(entries) == [
        ("09-22", "Came to the account Hooli"),
        ("08-05", "Came to the account Initech"),
    ]
    everything = timeline(workspace, row, TODAY)
    assert {entry.kind for entry in everything} <= set(sources.SOURCES["user"])


# --- The read API ---------------------------------------------------------------------------


def test_the_read_api_pages_both_ways_without_names(
    acme: Product, full_workspace: Workspace, acme_reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("readapi.views.timeline.timezone", SimpleNamespace(now=lambda: NOON))
    address = f"/v2/accounts/{account_id(acme, 'initech')}/timeline"
    scope = {"workspace_id": full_workspace.pk}
    everything = acme_reads(address, **scope, limit=100).json()["data"]
    expected = [
        {"day": str(e.day), "kind": e.kind, "type": e.type, "text": f"{e.text}."}
        for e in read(full_workspace)
    ]
    assert everything == expected
    assert "maya" not in str(everything) and "Ann" not in str(everything)
    pages, page = [], acme_reads(address, **scope, limit=4).json()
    while True:
        pages.append(page)
        if "next" not in page["_links"]:
            break
        page = acme_reads(page["_links"]["next"]).json()
    assert [row for each in pages for row in each["data"]] == everything
    for before, after in pairwise(pages):
        assert acme_reads(after["_links"]["prev"]).json()["data"] == before["data"]
    by_kind = acme_reads(address, **scope, kinds="alarm,license").json()["data"]
    assert by_kind == [row for row in everything if row["kind"] in ("alarm", "license")]
    refused = acme_reads(address, **scope, kinds="alarms")
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("kinds accepts: alarm, score")


def test_the_read_api_has_the_timeline_of_a_user(
    acme: Product, full_workspace: Workspace, acme_reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("readapi.views.timeline.timezone", SimpleNamespace(now=lambda: NOON))
    user = User.objects.get(external_id="ann")
    address, scope = f"/v2/users/{user.pk}/timeline", {"workspace_id": full_workspace.pk}
    row = UserEngagement.objects.get(score_set=full_workspace.scores_id, user=user)
    expected = [
        {"day": str(e.day), "kind": e.kind, "type": e.type, "text": f"{e.text}."}
        for e in timeline(full_workspace, row, TODAY)
    ]
    assert acme_reads(address, **scope, limit=100).json()["data"] == expected
    assert "Came to the account Initech." in {entry["text"] for entry in expected}
    first = acme_reads(address, **scope, limit=1).json()
    second = acme_reads(first["_links"]["next"]).json()
    assert first["data"] + second["data"] == expected[:2]
    people = acme_reads(address, **scope, kinds="people").json()["data"]
    assert people == [entry for entry in expected if entry["kind"] == "people"]
    refused = acme_reads(address, **scope, kinds="license").json()["error"]["message"]
    assert refused == "kinds accepts: score, segment, people, scoring."


# --- Pages ----------------------------------------------------------------------------------


def test_the_page_filters_and_pages_and_says_who(
    root: Client, acme: Product, full_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.subjects.timeline_page.PER_PAGE", 5)
    monkeypatch.setattr("console.subjects.subjects.timezone", SimpleNamespace(now=lambda: NOON))
    pk = account_id(acme, "initech")
    url = reverse("admin:engagement_account_timeline", args=[pk])
    page = root.get(url)
    html = page.content.decode()
    assert "Activity stopped" in html and "Older" in html and "Newer" not in html
    older = root.get(url, {"page": "1"}).content.decode()
    assert "Newer" in older
    assert "Activity stopped" not in older
    only = root.get(url, {"kind": "scoring"}).content.decode()
    assert "by maya" in only and "Activity stopped" not in only
    for odd in ({"kind": "x"}, {"page": "x"}, {"page": "99999"}, {"kind": "", "page": "-1"}):
        assert root.get(url, odd).status_code == 200
    latest = root.get(reverse("admin:engagement_account_latest", args=[pk])).content.decode()
    assert "Activity stopped" in latest and "<html" not in latest
    account = root.get(reverse("admin:engagement_account_change", args=[pk])).content.decode()
    assert url in account
    own = root.get(reverse("admin:engagement_user_timeline", args=[user_id(acme, "ann")]))
    assert "Came to the account Initech" in own.content.decode()


def test_an_account_without_scores_says_why(root: Client, acme: Product) -> None:
    now: datetime = NOON
    account = Account.objects.create(
        product=acme, external_id="x", is_identified=True, first_seen_at=now, last_seen_at=now
    )
    html = root.get(reverse("admin:engagement_account_timeline", args=[account.pk]))
    assert "has no scores yet" in html.content.decode()
