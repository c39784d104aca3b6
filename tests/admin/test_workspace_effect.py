"""The effect of an unsaved change on a workspace's page, and its list of recent events."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.forms import formsets
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console import recent_events
from console.workspaces import what_if as effects
from core.database import sql
from engagement.models import EventName, EventWeight, Product, ScoreSet, UserEngagement, Workspace
from engagement.rescoring import what_if
from engagement.rescoring.rescore import rescore
from engagement.scores import sampling
from engagement.segments import event_counts
from outcomes.backtests.effect import PredictionEffect
from outcomes.kinds import Kind
from outcomes.statistics.estimates import Estimate
from tests.cases import each, leaves_no_rows
from tests.engagement.history import NOON, group, identify, tell, track

SCORED = {"ann": ("opened", 9), "bob": ("shared", 4), "cyd": ("paid", 2)}
LATER = {"what": "first_seen", "time_is": "within_days", "days": "3"}


@pytest.fixture(autouse=True)
def today_is_the_days_of_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOON)


def people(product: Product) -> Workspace:
    """Ann opened nine times, Bob shared four times, Cyd paid twice, each in an account."""
    for name, (event, times) in SCORED.items():
        company = f"{name} ltd of {product.name}"
        tell(product, group(company, -240, name=company))
        tell(product, identify(name, -240, group=company, name=f"{name} of {product.name}"))
        tell(product, *(track(name, event, -1 - 0.01 * number) for number in range(times)))
    workspace = product.workspaces.get()
    opened = EventName.objects.get(product=product, name="opened")
    EventWeight.objects.create(workspace=workspace, event_name=opened, weight=2)
    rescore(NOON)
    workspace.refresh_from_db()
    return workspace


@pytest.fixture
def ours(acme: Product) -> Workspace:
    return people(acme)


def page(workspace: Workspace, name: str = "change") -> str:
    return reverse(f"admin:engagement_workspace_{name}", args=[workspace.pk])


def filled_in(workspace: Workspace, *weights: tuple[str, object], **more: Any) -> dict[str, Any]:
    """The form as a browser submits it, with new *weights* below the stored one."""
    stored = workspace.weights.get()
    data: dict[str, Any] = {
        "name": "Default",
        "lookback_days": 7,
        "alarm_level": 2,
        "default_weight": 1,
        "weights-TOTAL_FORMS": 1 + len(weights),
        "weights-INITIAL_FORMS": 1,
        "weights-0-id": stored.pk,
        "weights-0-workspace": workspace.pk,
        "weights-0-weight": stored.weight,
        "conditions-match": "all",
        "conditions-TOTAL_FORMS": 0,
        "conditions-INITIAL_FORMS": 0,
    }
    for number, (event, weight) in enumerate(weights, 1):
        data |= {f"weights-{number}-event": event, f"weights-{number}-weight": weight}
    return {**data, **more}


def about(*conditions: dict[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"conditions-TOTAL_FORMS": len(conditions)}
    for number, condition in enumerate(conditions):
        fields |= {f"conditions-{number}-{name}": text for name, text in condition.items()}
    return fields


def effect(client: Client, workspace: Workspace, data: dict[str, Any]) -> str:
    answer = client.post(page(workspace, "effect"), data)
    assert answer.status_code == 200
    return answer.content.decode()


def rankings(html: str) -> dict[str, list[str]]:
    """The text of each table's rows: rank, name, move, and score."""
    members_by_segment: dict[str, list[str]] = {}
    for section in re.findall(r"<section.*?</section>", html, re.DOTALL):
        (title,) = re.findall(r"<h3>(.*?)</h3>", section)
        for table in re.findall(r"<table>.*?</table>", section, re.DOTALL):
            (side,) = re.findall(r"<caption>(.*?)</caption>", table)
            rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
            texts = [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in rows]
            members_by_segment[f"{title} {side}"] = texts
    return members_by_segment


def stored(workspace: Workspace) -> tuple[object, ...]:
    fresh = Workspace.objects.get(pk=workspace.pk)
    weights = sorted(fresh.weights.values_list("event_name__name", "weight"))
    rows = (ScoreSet.objects.count(), UserEngagement.objects.count(), EventName.objects.count())
    return (fresh.lookback_days, fresh.default_weight, fresh.audience, weights, rows)


# --- The effect -----------------------------------------------------------------------------


def test_a_weight_shows_who_would_move_before_it_is_saved(member: Client, ours: Workspace) -> None:
    before = stored(ours)
    lists = rankings(effect(member, ours, filled_in(ours, ("shared", 10))))
    assert [line.rsplit(" ", 1)[0] for line in lists["Users Now"]] == [
        "1 ann of Acme",
        "2 bob of Acme",
        "3 cyd of Acme",
    ]
    assert [line.rsplit(" ", 1)[0] for line in lists["Users With the change"]] == [
        "1 bob of Acme ▲ 1",
        "2 ann of Acme ▼ 1",
        "3 cyd of Acme",
    ]
    assert lists["Accounts With the change"][0].startswith("1 bob ltd of Acme ▲ 1 ")
    assert stored(ours) == before


def test_what_is_shown_before_is_what_is_shown_after_saving(
    member: Client, ours: Workspace
) -> None:
    data = filled_in(ours, ("shared", 10), lookback_days=30)
    foreseen = rankings(effect(member, ours, data))
    assert member.post(page(ours), data).status_code == 302
    rescore(NOON)
    now = rankings(member.get(page(ours)).content.decode())
    for kind in ("Users", "Accounts"):
        without_moves = [
            re.sub(r" [▲▼] \d+", "", line) for line in foreseen[f"{kind} With the change"]
        ]
        assert now[f"{kind} Now"] == without_moves


@pytest.mark.slow
@each(
    ("change", "expected"),
    [
        ({}, effects.NOTHING_CHANGED_MESSAGE),
        ({"name": "Another"}, effects.NOTHING_CHANGED_MESSAGE),
        ({"name": ""}, effects.NOTHING_CHANGED_MESSAGE),
        ({"weights-0-weight": 3}, effects.EXACT_MESSAGE),
        ({"weights-0-DELETE": "on"}, effects.EXACT_MESSAGE),
        ({"default_weight": 0}, "would not be ranked"),
        (about(LATER), "No scores yet."),
        (about({"what": ""}), effects.NOTHING_CHANGED_MESSAGE),
        ({"weights-TOTAL_FORMS": 2, "weights-1-event": "", "weights-1-weight": ""}, "top ranks"),
        ({"weights-TOTAL_FORMS": 2, "weights-1-event": " paid ", "weights-1-weight": 9}, "▲ 2"),
    ],
)
@leaves_no_rows
def test_each_part_of_the_form_has_its_effect(
    member: Client, ours: Workspace, change: dict[str, Any], expected: str
) -> None:
    assert expected in effect(member, ours, filled_in(ours, **change))


@each(
    ("change", "sentence"),
    [
        ({"lookback_days": 8}, "Lookback days: Select a valid choice."),
        ({"lookback_days": ""}, "Lookback days: This field is required."),
        ({"half_life_days": 6}, "Half-life in days: Enter a whole number from 7 to 180."),
        ({"default_weight": 11}, "Default weight: Enter a whole number from 0 to 10."),
        ({"weights-0-weight": "x"}, "Weight of “opened”: Enter a whole number from 0 to 10."),
        ({"weights-TOTAL_FORMS": 2, "weights-1-event": "paid"}, "Weight of “paid”: Enter a whole"),
        (
            {"weights-TOTAL_FORMS": 2, "weights-1-weight": "3"},
            "Weight of “an event without a name”",
        ),
        (
            {"weights-TOTAL_FORMS": 2, "weights-1-event": "opened", "weights-1-weight": "3"},
            "“opened” is listed twice.",
        ),
        (about({**LATER, "days": "many"}), "Condition 1: Enter a whole number."),
        (about({"what": "nonsense"}), "Condition 1: Select a valid choice."),
        ({"weights-TOTAL_FORMS": "x"}, "ManagementForm data is missing"),
        ({"weights-0-id": "0"}, "Fix this to see the effect:"),
    ],
)
@leaves_no_rows
def test_invalid_inputs_are_listed(
    member: Client, ours: Workspace, change: dict[str, Any], sentence: str
) -> None:
    html = effect(member, ours, filled_in(ours, **change))
    assert sentence in html and rankings(html) == {}


def test_an_empty_form_is_no_error(member: Client, ours: Workspace) -> None:
    assert "Fix this" in effect(member, ours, {})


@each("button", ["_effect", "_preview", "_add_condition"])
@leaves_no_rows
def test_the_buttons_show_it_without_a_script_and_save_nothing(
    member: Client, ours: Workspace, button: str
) -> None:
    before = stored(ours)
    data = filled_in(ours, ("shared", 10), **{button: "1"})
    html = member.post(page(ours), data).content.decode()
    assert rankings(html)["Users With the change"][0].startswith("1 bob of Acme ▲ 1")
    assert 'value="shared"' in html and "Please correct" not in html
    assert stored(ours) == before


def test_a_page_as_it_is_shows_who_ranks_highest(member: Client, ours: Workspace) -> None:
    html = member.get(page(ours)).content.decode()
    assert effects.CHANGE_SOMETHING_MESSAGE in html
    assert list(rankings(html)) == ["Accounts Now", "Users Now"]


def test_a_workspace_without_scores_says_so(member: Client, acme: Product, ours: Workspace) -> None:
    new = Workspace.objects.create(product=acme, name="New")
    Workspace.objects.filter(pk=ours.pk).update(scores=None)
    assert effects.NOT_SCORED_MESSAGE in member.get(page(new)).content.decode()
    assert effects.NOT_SCORED_MESSAGE in effect(member, ours, filled_in(ours, ("shared", 10)))


def test_what_takes_too_long_is_said(
    member: Client, ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "PREVIEW_TIMEOUT_SECONDS", -1.0)

    @contextmanager
    def any_time(seconds: float) -> Iterator[None]:
        yield

    monkeypatch.setattr(sql, "statement_timeout", any_time)
    html = effect(member, ours, filled_in(ours, ("shared", 10)))
    assert effects.TIMED_OUT_MESSAGE in html and rankings(html) == {}


def test_an_estimate_says_that_it_is_one(
    member: Client, ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "SCORE_ALL_UP_TO", 2)
    html = effect(member, ours, filled_in(ours, ("shared", 10)))
    assert "Estimated from 3 users" in html and "Estimated from 3 accounts" in html
    assert effects.EXACT_MESSAGE not in html


def test_where_accounts_have_too_many_users_their_effect_is_left_out(
    member: Client, ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "SCORE_ALL_UP_TO", 2)
    monkeypatch.setattr(what_if, "MAX_USERS_OF_ACCOUNTS", 2)
    early = {**LATER, "time_is": "more_than_days_ago"}
    html = effect(member, ours, filled_in(ours, **about(early)))
    assert effects.TOO_MANY_USERS_MESSAGE in html
    assert list(rankings(html)) == ["Users Now", "Users With the change"]


def test_it_is_for_managers_of_the_product(
    reader: Client, member: Client, ours: Workspace, globex: Product
) -> None:
    theirs = people(globex)
    assert reader.post(page(ours, "effect"), filled_in(ours)).status_code == 403
    assert member.post(page(theirs, "effect"), filled_in(theirs)).status_code == 404
    assert member.get(page(ours, "effect")).status_code == 405
    html = effect(member, ours, filled_in(ours, ("shared", 10)))
    assert "Globex" not in html
    assert 'id="effect"' not in reader.get(page(ours)).content.decode()


# --- The events that are seen ---------------------------------------------------------------


def listed(html: str) -> list[tuple[str, ...]]:
    """The rows of the table of events: the name, times, share of the points, and weight."""
    (table,) = re.findall(r'<fieldset class="module eds-events".*?</table>', html, re.DOTALL)
    rows = []
    for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)[1:]:
        (name,) = re.findall(r'<th scope="row">(.*?)</th>', row, re.DOTALL)
        name = re.sub(r"<a .*?</a>", "", name, flags=re.DOTALL)
        typed = 'type="text"' in name
        selected_values = re.findall(r'<option value="(\w*)" selected>', row)
        cells = re.sub(r"<select.*?</select>", "", row.split("</th>")[1], flags=re.DOTALL)
        texts = re.sub(r"<[^>]*>", " ", cells).split()
        rows.append(
            ("…" if typed else re.sub(r"<[^>]*>", "", name).strip(), *texts, *selected_values)
        )
    return rows


def test_events_are_listed_with_how_often_they_were_done_and_what_they_weigh(
    member: Client, reader: Client, ours: Workspace, globex: Product
) -> None:
    people(globex)
    html = member.get(page(ours)).content.decode()
    assert listed(html) == [
        ("opened", "9", "75%", "2"),
        ("shared", "4", "17%", ""),
        ("paid", "2", "8%", ""),
        ("…", ""),
    ]
    assert "Events of the last 30 days" in html
    html = reader.get(page(ours)).content.decode()
    assert listed(html) == [
        ("opened", "9", "75%", "2"),
        ("shared", "4", "17%", "1", "by", "default"),
        ("paid", "2", "8%", "1", "by", "default"),
    ]


def test_what_counts_nothing_by_default_has_no_share(member: Client, ours: Workspace) -> None:
    Workspace.objects.update(default_weight=0)
    assert listed(member.get(page(ours)).content.decode())[1] == ("shared", "4", "–", "")


def as_browser(html: str) -> dict[str, str]:
    """What a browser submits of the weights."""
    form = html.split('id="weights-group"')[1].split("<template>")[0]
    inputs = re.findall(r'<input type="(?:hidden|text)" name="([^"]+)"(?: value="([^"]*)")?', form)
    data = dict(inputs)
    for name, options in re.findall(r'<select name="([^"]+)".*?>(.*?)</select>', form, re.DOTALL):
        data[name] = "".join(re.findall(r'value="(\w*)" selected', options))
    return data


def test_an_event_gets_a_weight_in_its_row_and_goes_back_to_the_default(
    member: Client, ours: Workspace
) -> None:
    before = stored(ours)
    scoring = {"name": "Default", "lookback_days": 7, "alarm_level": 2, "default_weight": 1}
    lists = {**as_browser(member.get(page(ours)).content.decode()), **scoring}
    assert member.post(page(ours), lists).status_code == 302
    assert stored(ours) == before
    changed = {**lists, "weights-0-weight": "", "weights-1-weight": "8"}
    assert lists["weights-1-event"] == "shared"
    assert "bob of Acme" in rankings(effect(member, ours, changed))["Users With the change"][0]
    assert member.post(page(ours), changed).status_code == 302
    weights = dict(ours.weights.values_list("event_name__name", "weight"))
    assert weights == {"shared": 8}


def test_the_effect_says_how_segments_would_change(member: Client, ours: Workspace) -> None:
    html = effect(member, ours, filled_in(ours, ("shared", 10)))
    changes = re.findall(
        r'segment=\d+">([^<]+)</a></th><td class="number">(\d+)</td><td class="number">(\d+)', html
    )
    assert "Segments that would change" in html and changes
    assert all(now != then for _, now, then in changes)


def test_the_list_is_short_and_says_that_there_are_more(
    member: Client, ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    EventName.objects.create(product=ours.product, name="never done")
    monkeypatch.setattr(recent_events, "MAX_EVENTS", 1)
    html = member.get(page(ours)).content.decode()
    assert (
        listed(html) == [("opened", "9", "75%", "2"), ("…", "")]
        and "3 more events that are rarer or not recent" in html
    )
    # An event with a weight is listed even if it is rare.
    never = EventName.objects.get(name="never done")
    EventWeight.objects.create(workspace=ours, event_name=never, weight=4)
    html = member.get(page(ours)).content.decode()
    assert listed(html)[1] == ("never done", "0", "–", "4") and "2 more events" in html


def test_of_many_users_counts_are_estimates(
    member: Client, ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_counts, "COUNT_ALL_UP_TO", 2)
    monkeypatch.setattr(event_counts, "SAMPLE_SIZE", 2)
    monkeypatch.setattr(sampling, "ID_RANGES", 1)
    html = member.get(page(ours)).content.decode()
    assert "Estimated from an even sample of 2 scored users" in html and "≈" in html


def test_counting_that_takes_too_long_is_said(
    member: Client, ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*arguments: object) -> None:
        sql.execute("SELECT pg_sleep(2)")

    monkeypatch.setattr(recent_events, "RECENT_EVENTS_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(event_counts, "count_recent_events", slow)
    html = member.get(page(ours)).content.decode()
    assert "This count is taking too long" in html and "opened" in html


def test_a_button_adds_a_row_and_saves_nothing(member: Client, ours: Workspace) -> None:
    before = stored(ours)
    html = member.post(page(ours), filled_in(ours, _weigh="1")).content.decode()
    assert 'name="weights-1-event"' in html and stored(ours) == before


@pytest.mark.parametrize("rows", ["", "x", "99999", "-1"])
def test_a_button_with_an_odd_form_is_no_error(
    member: Client, ours: Workspace, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Django shows no more than twice that many rows, which takes seconds with its 1,000.
    monkeypatch.setattr(formsets, "DEFAULT_MAX_NUM", 10)
    data = filled_in(ours, _weigh="1", **{"weights-TOTAL_FORMS": rows})
    assert member.post(page(ours), data).status_code == 200


def test_the_page_asks_a_bounded_number_of_queries(
    member: Client, ours: Workspace, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        name = EventName.objects.create(product=ours.product, name=f"event {number}")
        EventWeight.objects.create(workspace=ours, event_name=name, weight=3)
        tell(ours.product, identify(f"user {number}"), track(f"user {number}", name.name))
    rescore(NOON)
    with django_assert_max_num_queries(35):
        assert member.get(page(ours)).status_code == 200


# --- What the score would have predicted ------------------------------------------------------


def test_the_effect_says_what_the_score_would_have_predicted(
    member: Client, ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects_of_score = PredictionEffect(
        Kind.RENEWAL,
        60,
        Estimate(0.64, 0.57, 0.71, 88),
        Estimate(0.71, 0.64, 0.78, 88),
        Estimate(0.07, 0.02, 0.12, 88),
    )
    monkeypatch.setattr(effects, "would_have_predicted", lambda *arguments: effects_of_score)
    html = effect(member, ours, filled_in(ours, ("paid", 9)))
    assert (
        "60 days before 88 renewals, it would have predicted with an AUC of 0.71 (0.64 to 0.78), "
        "and today’s score with 0.64 (0.57 to 0.71). Difference: +0.07 ± 0.05." in html
    )
    unclear = effects_of_score._replace(difference=Estimate(-0.01, -0.06, 0.04, 88))
    monkeypatch.setattr(effects, "would_have_predicted", lambda *arguments: unclear)
    html = effect(member, ours, filled_in(ours, ("paid", 9)))
    assert "Difference: \N{MINUS SIGN}0.01 ± 0.05, so none can be shown." in html


def test_rankings_do_not_wait_for_a_prediction(
    member: Client, ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "PREDICTION_TIMEOUT_SECONDS", 0.2)

    def take_long(*arguments: Any) -> None:
        sql.fetch("SELECT pg_sleep(20)")

    monkeypatch.setattr(effects, "would_have_predicted", take_long)
    html = effect(member, ours, filled_in(ours, ("paid", 9)))
    assert rankings(html) and "predicted" not in html
