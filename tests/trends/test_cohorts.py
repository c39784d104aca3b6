"""Who stays: cohorts against a plain model of the raw messages, and what readers get of them."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from core.database import sql
from core.models import Job
from engagement.models import EventName, EventWeight, Product, ScoreSet, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from tests.admin.conftest import member, reader, root
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, at, group, identify, tell, track
from tests.jobs import run_job
from tests.readapi.conftest import Reads, acme_reads
from trends.cohorts import counting, jobs, storage
from trends.cohorts.results import WEEK, WEEKS, Cohorts, monday
from trends.models import StoredCohorts

__all__ = ["acme_reads", "member", "reader", "root"]

pytestmark = pytest.mark.django_db
TODAY = NOON.date()
DAY = 24
YESTERDAY = TODAY - timedelta(days=1)
FIRST = monday(YESTERDAY) - (WEEKS - 1) * WEEK


def answer(question: StoredCohorts) -> Cohorts:
    question.refresh_from_db()
    cohorts = storage.decode(question)
    assert cohorts is not None
    return cohorts


def compute(workspace: Workspace, now: datetime = NOON) -> None:
    rescore(now)
    run_job(storage.JOB, now)


def of(workspace: Workspace, scope: str) -> Cohorts:
    return answer(StoredCohorts.objects.get(workspace=workspace, scope=scope, trait=""))


# --- The plain model ------------------------------------------------------------------------

_USERS, _ACCOUNTS, _EVENTS = ("ann", "bob", "cyd", "dan"), ("initech", "hooli"), ("opened", "idle")
_CALLS = st.lists(
    st.tuples(
        st.sampled_from(_USERS),
        st.sampled_from(_ACCOUNTS),
        st.sampled_from((*_EVENTS, None)),
        st.integers(-(WEEKS + 2) * 7 * DAY, 20),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda call: call[3],
)


def plain(
    calls: list[tuple[str, str, str | None, int]], place: int, event: str
) -> tuple[list[int], dict[tuple[int, int], int]]:
    """Sizes of the cohorts, and how many of each were active in each week: by the raw calls alone.
    *place* is where a call names the subject."""
    days = defaultdict(list)
    for call in calls:
        days[call[place]].append(at(call[3]).date())
    sizes, active = [0] * WEEKS, defaultdict(set)
    for name, own in days.items():
        cohort = (min(own) - FIRST).days // 7
        if not 0 <= cohort < WEEKS or min(own) > YESTERDAY:
            continue
        sizes[cohort] += 1
        for call in calls:
            day = at(call[3]).date()
            if call[place] == name and call[2] == event and day <= YESTERDAY:
                active[cohort, (day - FIRST).days // 7 - cohort].add(name)
    return sizes, {cell: len(names) for cell, names in active.items()}


@examples(10)
@given(calls=_CALLS, order=st.randoms())
@leaves_no_rows
def test_cohorts_follow_from_the_messages_in_whatever_order_they_arrive(
    acme: Product, calls: list[tuple[str, str, str | None, int]], order: Any
) -> None:
    """Events that weigh nothing are no activity, unless they are questions for."""
    workspace = Workspace.objects.get(product=acme)
    idle = EventName.objects.create(product=acme, name="idle")
    EventWeight.objects.create(workspace=workspace, event_name=idle, weight=0)
    sets.request_score_set(workspace.pk)
    late = list(calls)
    order.shuffle(late)
    # Each account has users of its own, so nobody moves.
    for user, account, event, hours in late:
        name = f"{user}@{account}"
        if event:
            tell(acme, track(name, event, hours, account))
        tell(acme, identify(name, hours, account))
    own_calls = [
        (f"{user}@{account}", account, event, hours) for user, account, event, hours in calls
    ]
    rescore(NOON)
    questions = [storage.ask(workspace, scope, idle, "", NOON) for scope in ("account", "user")]
    run_job(storage.JOB, NOON)
    for place, scope in enumerate(("user", "account")):
        sizes, active = plain(own_calls, place, "opened")
        assert_equal(of_any(workspace, scope), sizes, active)
        idle_sizes, idle_active = plain(own_calls, place, "idle")
        question = next(each for each in questions if each.scope == scope)
        assert_equal(answer(question), idle_sizes, idle_active)


def of_any(workspace: Workspace, scope: str) -> Cohorts:
    return answer(StoredCohorts.objects.get(workspace=workspace, scope=scope, event_name_id=0))


def assert_equal(cohorts: Cohorts, sizes: list[int], active: dict[tuple[int, int], int]) -> None:
    (everybody,) = cohorts.groups
    assert (cohorts.first, cohorts.through) == (FIRST, YESTERDAY)
    assert everybody.sizes == sizes
    assert {
        (n, k): count
        for n, row in enumerate(everybody.active)
        for k, count in enumerate(row)
        if count
    } == active


# --- Groups, and the curve ------------------------------------------------------------------


@pytest.fixture
def workspace(acme: Product) -> Workspace:
    """Ten accounts of three plans, each seen first five weeks ago and active in some weeks."""
    for number in range(10):
        plan: Any = {"plan": ("pro", "free", None)[number % 3]} if number % 3 < 2 else {}
        name, start = f"account {number}", -5 * 7 * DAY
        tell(acme, group(name, start, **plan), identify(f"user {number}", start, name))
        tell(
            acme,
            *(track(f"user {number}", "opened", start + 7 * DAY * week) for week in range(number)),
        )
    return Workspace.objects.get(product=acme)


def test_values_of_a_trait_are_groups_that_add_up(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MAX_VALUES", 1)
    question = storage.ask(workspace, "account", None, "plan", NOON)
    compute(workspace)
    everybody, *groups = answer(question).groups
    assert [(each.label, each.value, sum(each.sizes)) for each in groups] == [
        ("pro", "pro", 4),
        (counting.OTHERS, None, 3),
        (counting.WITHOUT, None, 3),
    ]
    assert [sum(cells) for cells in zip(*(each.sizes for each in groups), strict=True)] == (
        everybody.sizes
    )
    for n, row in enumerate(everybody.active):
        for k, count in enumerate(row):
            assert count == sum(each.active[n][k] for each in groups)


def test_the_curve_counts_weeks_that_are_over_and_says_its_interval(workspace: Workspace) -> None:
    compute(workspace)
    cohorts = of(workspace, "account")
    everybody = cohorts.groups[0]
    curve = list(cohorts.curve(everybody))
    # Accounts 1 to 9 were active in week 0, 2 to 9 in week 1; the fifth week after is not over.
    assert [each and round(each.value, 2) for each in curve[:6]] == [0.9, 0.8, 0.7, 0.6, 0.5, None]
    assert curve[0] and (round(curve[0].low, 2), round(curve[0].high, 2)) == (0.6, 0.98)
    assert curve[0].outcomes == 10
    assert [cohorts.is_complete(week) for week in (WEEKS - 2, WEEKS - 1)] == [True, False]


# --- The job --------------------------------------------------------------------------------


def test_late_events_and_forgetting_are_in_it_the_next_night(
    acme: Product, workspace: Workspace
) -> None:
    compute(workspace)
    before = of(workspace, "account").groups[0]
    compute(workspace, NOON + timedelta(hours=1))
    assert of(workspace, "account").groups[0] == before
    tell(acme, track("user 0", "opened", -5 * 7 * DAY))
    ref = SubjectRef(acme.pk, SubjectScope.ACCOUNT, "account 9")
    forgetting.forget(ref, NOON + timedelta(hours=1), suppress=True)
    tomorrow = NOON + timedelta(days=1)
    compute(workspace, tomorrow)
    after = of(workspace, "account").groups[0]
    assert sum(before.sizes) == 10 and sum(after.sizes) == 9
    assert sum(row[0] for row in after.active) == 9
    assert not Job.objects.filter(kind=storage.JOB).exists()


def test_a_question_is_computed_week_by_week_with_progress(workspace: Workspace) -> None:
    rescore(NOON)
    event = EventName.objects.get(name="opened")
    question = storage.ask(workspace, "user", event, "", NOON)
    assert storage.progress(question) == "Computing soon."
    run_job(storage.JOB, NOON, lambda: Job.objects.filter(key=question.pk, progress=3).exists())
    assert storage.progress(question) == f"Computing: 3 of {WEEKS} weeks."
    run_job(storage.JOB, NOON)
    question.refresh_from_db()
    assert storage.progress(question) == "" and question.computed_at == NOON


def test_what_nobody_opens_is_not_computed_and_questions_are_bounded(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "MAX_QUESTIONS", 2)
    questions = [
        storage.ask(workspace, "account", None, name, NOON + timedelta(seconds=place))
        for place, name in enumerate(("plan", "tier", "country"))
    ]
    others = StoredCohorts.objects.filter(workspace=workspace, wanted_at__isnull=False)
    assert set(others.values_list("trait", flat=True)) == {"tier", "country"}
    compute(workspace)
    storage.note_opened(answer_row(questions[2]), NOON + timedelta(days=20))
    later = NOON + timedelta(days=40)
    ScoreSet.objects.update(scored_day=later.date())
    due = set(jobs.due_questions())
    rows = StoredCohorts.objects.exclude(trait="tier")
    assert due == set(rows.values_list("pk", flat=True))
    assert len(due) == 3


def answer_row(question: StoredCohorts) -> StoredCohorts:
    question.refresh_from_db()
    return question


def test_a_week_is_counted_from_its_own_days(acme: Product, workspace: Workspace) -> None:
    """No statement reads all daily counts of a product."""
    rescore(NOON)
    score_set = Workspace.objects.select_related("scores").get(pk=workspace.pk).scores
    assert score_set is not None
    question = StoredCohorts(workspace=workspace, scope="user", trait="plan")
    own = counting.Counting(question, score_set, YESTERDAY)
    statement = counting._ACTIVE.format(**own._parts)
    span = {"week": YESTERDAY - timedelta(days=6), "week_end": YESTERDAY, "values": ["pro"]}
    sql.execute("SET LOCAL enable_seqscan = off")
    plan = "\n".join(
        line for (line,) in sql.fetch(f"EXPLAIN {statement}", {**own._parameters, **span})
    )
    assert "daily_count_by_day" in plan or "day >=" in plan


# --- Pages and the read API -----------------------------------------------------------------


def test_the_page_shows_counts_and_intervals_and_has_a_file(
    member: Client, workspace: Workspace
) -> None:
    url = reverse("admin:engagement_workspace_cohorts", args=[workspace.pk])
    assert "Nothing is counted yet." in member.get(url).content.decode()
    assert "Nobody has asked" in member.get(url, {"trait": "plan"}).content.decode()
    compute(workspace)
    html = member.get(url).content.decode()
    assert "9 of 10, 95% interval 60 to 98%" in html and "eds-shade-9" in html
    assert "the week is not over" in html
    assert ' style="' not in html.split('id="content-main"')[1]
    file = member.get(url, {"file": "csv"}).getvalue().decode().splitlines()
    assert len(file) == 1 + WEEKS * (WEEKS + 1) // 2
    start = monday(TODAY - timedelta(weeks=5)).isoformat()
    assert f"All,{start},0,yes,10,9,0.9" in "\n".join(file)
    for odd in ({"group": "99"}, {"group": "x"}, {"subjects": "x"}, {"trait": "\0"}):
        assert member.get(url, odd).status_code == 200
    assert "No event of this product" in member.get(url, {"event": "nope"}).content.decode()


def test_a_manager_has_others_computed_and_a_viewer_does_not(
    member: Client, reader: Client, workspace: Workspace
) -> None:
    compute(workspace)
    url = reverse("admin:engagement_workspace_cohorts", args=[workspace.pk])
    query = "?subjects=user&event=opened&trait=role"
    assert "compute_cohorts" not in reader.get(url + query).content.decode()
    ask = reverse("admin:engagement_workspace_compute_cohorts", args=[workspace.pk])
    assert reader.post(ask + query).status_code in (302, 403)
    assert not StoredCohorts.objects.filter(trait="role").exists()
    assert member.post(f"{ask}?event=nope").status_code == 404
    answer = member.post(ask + query)
    assert answer["Location"] == url + query
    assert "Computing soon." in member.get(url + query).content.decode()
    run_job(storage.JOB, datetime.now(UTC))
    html = member.get(url + query).content.decode()
    assert counting.WITHOUT in html and "Compute again" in html


def test_the_read_api_has_a_record_for_each_cohort_and_value(
    acme_reads: Reads, workspace: Workspace
) -> None:
    address = f"/v2/workspaces/{workspace.pk}/cohorts"
    assert acme_reads(address).json()["data"] == []
    storage.ask(workspace, "account", None, "plan", NOON)
    compute(workspace)
    records = acme_reads(address, limit=100).json()["data"]
    assert [record["week"] for record in records] == [
        (FIRST + WEEK * n).isoformat() for n in reversed(range(WEEKS))
    ]
    full = next(record for record in records if record["first_seen"])
    assert full["value"] is None and full["group"] == "All" and full["first_seen"] == 10
    assert full["weeks"][0]["active"] == 9 and full["weeks"][0]["is_complete"]
    assert full["weeks"][0]["share"]["outcomes"] == 10
    assert not full["weeks"][-1]["is_complete"]
    by_plan = acme_reads(address, by="plan", limit=100).json()["data"]
    assert {record["group"] for record in by_plan} == {
        *("All", "pro", "free", counting.OTHERS, counting.WITHOUT)
    }
    pages = acme_reads(address, by="plan", limit=7).json()
    second = acme_reads(pages["_links"]["next"]).json()
    assert second["data"] == by_plan[7:14]
    assert acme_reads(second["_links"]["prev"]).json()["data"] == by_plan[:7]
    assert acme_reads(address, by="nothing").json()["data"] == []
    refused = acme_reads(address, event="nope")
    assert refused.status_code == 400 and refused.json()["error"]["field"] == "event"


def test_another_products_cohorts_are_not_counted(globex: Product, workspace: Workspace) -> None:
    tell(globex, identify("user 0", -35 * DAY, "account 0"), track("user 0", "opened", -30 * DAY))
    compute(workspace)
    assert sum(of(workspace, "user").groups[0].sizes) == 10
    theirs = Workspace.objects.get(product=globex)
    assert sum(of(theirs, "user").groups[0].sizes) == 1
