"""The page of backtests suggests weights, and who may edit weights accepts them."""

import re
from datetime import UTC, date, datetime, timedelta
from html import unescape

import msgspec
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from access.models import TrailEntry
from core.models import Job
from engagement.models import EventName, EventWeight, Product, ScoreSet, Segment, Workspace
from outcomes.kinds import Kind
from outcomes.models import StoredBacktest
from outcomes.statistics.estimates import Estimate
from outcomes.suggestions import storage
from outcomes.suggestions.results import Judgement, Part, Suggestion, Weights
from tests.admin.test_backtests import address, page
from tests.jobs import run_job
from tests.outcomes.backtests import backtest, keep

AT = datetime.now(UTC) - timedelta(hours=3)
OWN, PRESENT = Estimate(0.78, 0.7, 0.86, 84), Estimate(0.71, 0.62, 0.8, 84)
SUGGESTION = Suggestion(
    Kind.RENEWAL,
    30,
    140,
    41,
    60,
    Weights(7, None, 1, {"opened": 3, "saved": 2}),
    1,
    None,
    Weights(30, 60, 0, {"opened": 3, "saved": 0, "exported": 10}),
    Judgement(OWN, PRESENT, Estimate(0.07, 0.02, 0.12, 84), []),
)
USE, SUGGEST = "Use these weights", "Suggest weights"


@pytest.fixture
def ours(acme: Product) -> Workspace:
    workspace = acme.workspaces.get()
    names = [
        EventName.objects.create(product=acme, name=name)
        for name in ("opened", "saved", "exported")
    ]
    for name, weight in zip(names[:2], (3, 2), strict=True):
        EventWeight.objects.create(workspace=workspace, event_name=name, weight=weight)
    keep(workspace, backtest(Kind.RENEWAL), AT)
    return workspace


def suggest(workspace: Workspace, suggestion: Suggestion = SUGGESTION) -> None:
    """Store the suggestion as the job does that computes it."""
    rows = StoredBacktest.objects.filter(workspace=workspace)
    rows.update(suggestion=msgspec.to_builtins(suggestion), suggested_at=AT)


def with_gain(value: float, low: float, high: float) -> Suggestion:
    judgement = Judgement(OWN, PRESENT, Estimate(value, low, high, 84), [])
    return msgspec.structs.replace(SUGGESTION, judgement=judgement)


def url(workspace: Workspace, view: str) -> str:
    path = reverse(f"admin:engagement_workspace_{view}", args=[workspace.pk])
    return f"{path}?kind=renewal"


def html_of(reader: Client, workspace: Workspace) -> str:
    return reader.get(address(workspace, kind="renewal")).content.decode()


def use(who: Client, workspace: Workspace, at: datetime = AT) -> str:
    """Press the button of the suggestion of that time; return what the next page says."""
    html, stamp = html_of(who, workspace), at.isoformat()
    if at == AT and USE in html:
        (stamp,) = re.findall(r'name="suggested_at" value="([^"]*)"', html)
    form = {"suggested_at": unescape(stamp)}
    response = who.post(url(workspace, "use_weights"), form, follow=True)
    return "".join(str(message) for message in response.context["messages"])


def test_a_manager_asks_for_weights_and_waits(
    reader: Client, member: Client, ours: Workspace
) -> None:
    assert "Suggested weights What became of accounts says" in page(reader, ours, kind="renewal")
    assert url(ours, "suggest_weights") in html_of(member, ours)
    response = member.post(url(ours, "suggest_weights"))
    assert response.status_code == 302
    html = html_of(member, ours)
    assert "Weights are being computed." in html
    assert url(ours, "suggest_weights") not in html
    (poll,) = re.findall(r'data-progress-url="([^"]*)"', html)
    assert reader.get(unescape(poll)).json() == {
        "text": "Weights are being computed.",
        "is_over": False,
    }
    Job.objects.filter(kind=storage.JOB).update(failures=1, error="It took too long.")
    assert "Computing is interrupted: It took too long." in html_of(reader, ours)
    Job.objects.filter(kind=storage.JOB).update(failures=0, error="")
    run_job(storage.JOB, timezone.now())
    assert reader.get(unescape(poll)).json()["is_over"]
    assert "being computed" not in html_of(member, ours)


def test_a_gain_has_its_interval_and_its_count(member: Client, ours: Workspace) -> None:
    suggest(ours)
    text = page(member, ours, kind="renewal")
    for sentence in (
        "Suggested weights predicted renewals better than the present ones.",
        "The gain in AUC is 0.07 (0.02 to 0.12), judged on 84 outcomes",
        "The AUC is 0.78 (0.70 to 0.86) with suggested weights and 0.71 (0.62 to 0.80) with the",
        "follow from 140 outcomes: 99 renewed, and 41 did not.",
        "What counts Last 7 days Half-life of 60 days All other events 1 0 "
        "\N{MINUS SIGN}1 exported 1 10 +9 opened 3 3 saved 2 0 ",
        "Suggested 3 hours ago",
    ):
        assert sentence in text
    assert html_of(member, ours).count('class="eds-changed"') == 4
    assert "no better than a guess" not in text
    assert f"{USE} They replace the present ones" in text


def test_a_small_gain_does_not_look_like_none(member: Client, ours: Workspace) -> None:
    suggest(ours, with_gain(0.03, 0.0031, 0.061))
    assert "0.03 (0.003 to 0.061)" in page(member, ours, kind="renewal")


def test_without_a_gain_the_page_says_so(member: Client, ours: Workspace) -> None:
    suggest(ours, with_gain(0.01, -0.03, 0.05))
    text = page(member, ours, kind="renewal")
    minus = "\N{MINUS SIGN}"
    assert f"No gain can be shown. The AUC changed by 0.01 ({minus}0.03 to 0.05)" in text
    assert f"{USE} They are no better than a guess." in text
    suggest(ours, with_gain(-0.06, -0.1, -0.02))
    text = page(member, ours, kind="renewal")
    assert (
        f"No gain can be shown. The AUC changed by {minus}0.06 ({minus}0.10 to {minus}0.02)" in text
    )
    assert USE not in text


@pytest.mark.parametrize(
    ("outcomes", "sentence"),
    [
        (59, "Too few outcomes: 59 of 60 needed. There are 59 outcomes: 18 renewed, and 41 did"),
        (140, "Too few outcomes of one sort to learn from and to judge by."),
        (0, "Too few outcomes: 0 of 60 needed."),
    ],
)
def test_of_too_few_outcomes_nothing_is_suggested(
    member: Client, ours: Workspace, outcomes: int, sentence: str
) -> None:
    change = {"outcomes": outcomes, "suggested": None, "judgement": None}
    suggest(ours, msgspec.structs.replace(SUGGESTION, **change))
    text = page(member, ours, kind="renewal")
    assert sentence in text
    assert USE not in text and f"{SUGGEST} again" in text
    assert "Nothing is suggested. Nothing was changed." in use(member, ours)


def test_accepted_weights_are_in_use_and_in_the_trail(member: Client, ours: Workspace) -> None:
    suggest(ours)
    assert "has the suggested weights" in use(member, ours)
    ours.refresh_from_db()
    assert storage.stored_weights(ours) == SUGGESTION.suggested
    assert ScoreSet.objects.filter(workspace=ours, state=ScoreSet.State.BUILDING).exists()
    entry = TrailEntry.objects.get(kind="workspace")
    assert entry.note == "Accepted suggested weights: renewals."
    assert (entry.person, entry.product_id) == ("maya", ours.product_id)
    assert entry.changes == {
        "lookback_days": [7, 30],
        "half_life_days": [None, 60],
        "default_weight": [1, 0],
        "weight of saved": [2, 0],
        "weight of exported": [None, 10],
    }
    text = page(member, ours, kind="renewal")
    assert "The workspace has these weights." in text and USE not in text


def test_a_suggestion_for_other_weights_is_not_accepted(member: Client, ours: Workspace) -> None:
    suggest(ours)
    EventWeight.objects.filter(event_name__name="saved").update(weight=9)
    text = page(member, ours, kind="renewal")
    assert "have changed since" in text and USE not in text
    assert "Nothing was changed" in use(member, ours)
    assert EventWeight.objects.get(event_name__name="saved").weight == 9
    assert not TrailEntry.objects.filter(kind="workspace").exists()


def test_only_the_suggestion_that_was_seen_is_accepted(member: Client, ours: Workspace) -> None:
    suggest(ours)
    assert "Nothing was changed" in use(member, ours, AT - timedelta(hours=1))
    ours.refresh_from_db()
    assert ours.half_life_days is None


@pytest.mark.parametrize(
    ("gain", "may_use"),
    [((0.07, 0.02, 0.12), True), ((0.01, -0.03, 0.05), True), ((-0.06, -0.1, -0.02), False)],
)
def test_what_the_page_does_not_offer_cannot_be_posted(
    member: Client, ours: Workspace, gain: tuple[float, float, float], may_use: bool
) -> None:
    suggest(ours, with_gain(*gain))
    text = page(member, ours, kind="renewal")
    assert (USE in text) == may_use
    assert ("predicted worse than the present ones, so they cannot be used" in text) != may_use
    message = use(member, ours)
    assert ("Nothing was changed" in message) != may_use
    assert (storage.stored_weights(ours) == SUGGESTION.present) != may_use
    # Used already.
    assert "Nothing was changed" in use(member, ours)
    assert TrailEntry.objects.filter(kind="workspace").count() == may_use


def test_what_is_in_use_already_is_not_accepted(member: Client, ours: Workspace) -> None:
    suggest(ours, msgspec.structs.replace(SUGGESTION, suggested=SUGGESTION.present))
    assert USE not in page(member, ours, kind="renewal")
    assert "The workspace has these weights. Nothing was changed." in use(member, ours)
    assert not ScoreSet.objects.filter(workspace=ours, state=ScoreSet.State.BUILDING).exists()


def test_the_latest_can_be_used_while_another_is_computed(member: Client, ours: Workspace) -> None:
    suggest(ours)
    member.post(url(ours, "suggest_weights"))
    text = page(member, ours, kind="renewal")
    assert USE in text and f"{SUGGEST} again" not in text
    assert "has the suggested weights" in use(member, ours)


def in_parts(*aucs: Estimate | None) -> Suggestion:
    days = [date(2026, month, 1) for month in range(1, 6)]
    parts = [
        Part(first, last, 21, auc, PRESENT)
        for first, last, auc in zip(days[:-1], days[1:], aucs, strict=True)
    ]
    judgement = Judgement(OWN, PRESENT, Estimate(0.07, 0.02, 0.12, 84), parts)
    return msgspec.structs.replace(SUGGESTION, judgement=judgement)


def test_each_part_has_its_auc(member: Client, ours: Workspace) -> None:
    assert "Part by part" not in page(member, ours, kind="renewal")
    suggest(ours)
    assert "Part by part" not in page(member, ours, kind="renewal")
    low = Estimate(0.51, 0.4, 0.62, 21)
    suggest(ours, in_parts(OWN, None, OWN, low))
    text = page(member, ours, kind="renewal")
    assert (
        "Part by part Outcomes follow from something else than before: the AUC of the last part is "
        "0.51 (0.40 to 0.62; 21 outcomes), and its interval is below those of all parts before it."
    ) in text
    first = "2026-01-01 to 2026-02-01 21 0.78 0.70 to 0.86 0.71 0.62 to 0.80"
    second = "2026-02-01 to 2026-03-01 21 \N{EN DASH} 0.71 0.62 to 0.80"
    assert f"{first} {second} 2026-03-01" in text
    suggest(ours, in_parts(OWN, low, OWN, low))
    assert "No change can be shown" in page(member, ours, kind="renewal")
    suggest(ours, in_parts(OWN, OWN, OWN, None))
    text = page(member, ours, kind="renewal")
    assert "suggested. Predicted on" in text and "No change can be shown" not in text


def test_a_viewer_sees_it_and_changes_nothing(reader: Client, ours: Workspace) -> None:
    suggest(ours)
    html = html_of(reader, ours)
    assert "The gain in AUC is 0.07" in html
    assert USE not in html and SUGGEST not in html
    for view in ("suggest_weights", "use_weights"):
        assert reader.post(url(ours, view), {"suggested_at": AT.isoformat()}).status_code == 403
    assert not Job.objects.filter(kind=storage.JOB).exists()
    ours.refresh_from_db()
    assert ours.half_life_days is None


def test_another_products_weights_stay_unknown(member: Client, globex: Product) -> None:
    theirs = globex.workspaces.get()
    keep(theirs, backtest(Kind.RENEWAL), AT)
    suggest(theirs)
    for view in ("suggest_weights", "use_weights"):
        assert member.post(url(theirs, view)).status_code == 404
    assert not Job.objects.filter(kind=storage.JOB).exists()


def test_nothing_is_suggested_without_a_backtest_or_of_a_segment(
    member: Client, ours: Workspace
) -> None:
    dormancy = url(ours, "suggest_weights").replace("renewal", "dormancy")
    assert member.post(dormancy).status_code == 404
    segment = Segment.objects.create(workspace=ours, scope="account", name="Mine", conditions=[])
    keep(ours, backtest(Kind.RENEWAL, segment=segment.pk), AT)
    suggest(ours)
    assert USE not in page(member, ours, kind="renewal", segment=segment.pk)


def test_the_table_stays_short(member: Client, ours: Workspace) -> None:
    unchanged = {f"event {number:03}": 5 for number in range(200)}
    present = Weights(7, None, 1, {"opened": 3, "saved": 2, **unchanged})
    suggested = Weights(7, None, 1, {"opened": 4, "saved": 2, **unchanged})
    suggest(ours, msgspec.structs.replace(SUGGESTION, present=present, suggested=suggested))
    text = page(member, ours, kind="renewal")
    assert "opened 3 4 +1" in text
    assert "event 029" in text and "event 030" not in text
    assert "171 more events keep their weights." in text
    assert "What counts Last 7 days Last 7 days All" in text
