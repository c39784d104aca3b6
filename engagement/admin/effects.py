"""What a workspace's form would change before it is saved: how the highest ranks would move."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple, cast

from engagement.admin.condition_forms import RuleForm
from engagement.admin.links import page_of
from engagement.admin.previews import SECONDS, name_of
from engagement.database import sql
from engagement.metric_names import Scope
from engagement.models import EventName, ScoreSet, Workspace
from engagement.rescoring import what_if
from engagement.rescoring.what_if import Definition, Place, Rankings

TITLES: dict[Scope, str] = {"account": "Accounts", "user": "Users"}
NOT_SCORED = "The workspace is not scored yet; look again in a moment."
TOO_LONG = (
    "Computing the effect takes too long to wait for it here. Saving computes it in the "
    "background, and the scores of before the change are shown until it is done."
)
NOTHING_CHANGED = "Nothing is changed that would move anybody: these rank highest now."
CHANGE_SOMETHING = "These rank highest now. Change something above to see how they would move."
TOO_MANY_USERS = "These accounts have too many users to be scored while you wait."
EXACT = "Computed for everybody, as saving would."


class Row(NamedTuple):
    """A line of a ranking; ``kind`` of its move is "up", "down", "new", "leaves" or nothing."""

    rank: int
    name: str
    url: str
    score: float
    kind: str = ""
    move: str = ""
    said: str = ""


class Side(NamedTuple):
    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Compared:
    title: str
    sides: list[Side]
    # Where not everybody was looked at.
    note: str = ""


@dataclass(frozen=True)
class Effect:
    """``faults`` say what of the form cannot be used, one sentence each."""

    text: str
    rankings: list[Compared] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def as_it_is(score_set: ScoreSet | None) -> Effect:
    """The highest ranks, of a form that nobody has changed yet."""
    if score_set is None:
        return Effect(NOT_SCORED)
    return Effect(CHANGE_SOMETHING, _as_they_are(score_set))


def of_form(
    score_set: ScoreSet | None,
    form: RuleForm,
    weights: Any,
    today: date,
) -> Effect:
    """What saving the form would change. Both are bound and nothing of them is saved."""
    if score_set is None:
        return Effect(NOT_SCORED)
    if faults := list(_faults(form, weights)):
        return Effect("The effect shows once this is put right:", faults=faults)
    asked = _definition(form, weights)
    if asked == what_if.definition_of(score_set):
        return Effect(NOTHING_CHANGED, _as_they_are(score_set))
    ends = time.monotonic() + SECONDS
    try:
        with sql.time_limit(SECONDS):
            tried = what_if.try_out(score_set, asked, today, lambda: time.monotonic() > ends)
    except sql.TookTooLong:
        return Effect(TOO_LONG)
    is_exact = all(one.looked_at is None for one in tried.values())
    return Effect(
        EXACT if is_exact else "",
        [_compared(scope, tried.get(scope), score_set.workspace_id) for scope in TITLES],
    )


# --- What is filled in ----------------------------------------------------------------------


def _faults(form: RuleForm, weights: Any) -> Iterator[str]:
    for name in ("lookback_days", "default_weight"):
        label = form[name].label
        yield from (f"{label}: {error}" for error in form.errors.get(name, ()))
    if form.rows and not form.rows.is_usable:
        yield from form.rows.errors or ["A condition cannot be used; it says why."]
    yield from weights.non_form_errors()
    for row in weights.forms:
        if row in weights.deleted_forms:
            continue
        name = row["event"].value() or "an event without a name"
        for errors in row.errors.values():
            yield from (f"Weight of “{name}”: {error}" for error in errors)


def _definition(form: RuleForm, weights: Any) -> Definition:
    # An empty row says nothing.
    filled_in = [
        row.cleaned_data
        for row in weights.forms
        if row not in weights.deleted_forms and "weight" in row.cleaned_data
    ]
    given = {one["event"]: one["weight"] for one in filled_in}
    workspace = cast(Workspace, form.instance)
    product = workspace.product_id
    known = EventName.objects.filter(product_id=product, name__in=given)
    exact = set(known.values_list("name", flat=True))
    return Definition(
        form.cleaned_data["lookback_days"],
        form.cleaned_data["default_weight"],
        workspace.audience,
        {name if name in exact else name.strip(): weight for name, weight in given.items()},
    )


# --- In words -------------------------------------------------------------------------------


def _as_they_are(score_set: ScoreSet) -> list[Compared]:
    now = what_if.highest(score_set)
    return [
        Compared(
            title, [Side("Now", [_row(place, score_set.workspace_id) for place in now[scope]])]
        )
        for scope, title in TITLES.items()
    ]


def _compared(scope: Scope, found: Rankings | None, workspace_id: int) -> Compared:
    if found is None:
        return Compared(TITLES[scope], [], TOO_MANY_USERS)
    now = [_row(place, workspace_id, *_leaving(place)) for place in found.now]
    then = [_row(place, workspace_id, *_moved(place)) for place in found.then]
    note = ""
    if found.looked_at is not None:
        note = (
            f"Estimated from {found.looked_at:,} {scope}s: those who rank highest now, and others "
            "picked evenly from all. Scores are about right; who ranks far below may be missing."
        )
    return Compared(TITLES[scope], [Side("Now", now), Side("With the change", then)], note)


def _moved(place: Place) -> tuple[str, str, str]:
    if place.other_rank is None:
        return "new", "new", "not ranked now"
    by = place.other_rank - place.rank
    if by == 0:
        return "", "", ""
    return (
        ("up", f"▲ {by}", f"up from {place.other_rank}")
        if by > 0
        else ("down", f"▼ {-by}", f"down from {place.other_rank}")
    )


def _leaving(place: Place) -> tuple[str, str, str]:
    if place.other_rank is None:
        return "leaves", "out", "would not be ranked"
    if place.other_rank > what_if.SHOWN:
        return "leaves", f"→ {place.other_rank}", f"would rank {place.other_rank}"
    return "", "", ""


def _row(place: Place, workspace_id: int, *move: str) -> Row:
    scope: Scope = "account" if place.subject._meta.model_name == "account" else "user"
    url = page_of(place.subject, scope, workspace_id)
    return Row(place.rank, name_of(place.subject), url, place.score, *move)
