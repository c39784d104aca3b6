"""What a workspace's form would change before it is saved: how the highest ranks would move."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple, cast

from engagement.admin.condition_forms import RuleForm
from engagement.admin.previews import PREVIEW_TIMEOUT_SECONDS, display_name
from engagement.admin.subject_urls import subject_url
from engagement.database import sql
from engagement.metric_names import Scope
from engagement.models import EventName, ScoreSet, Workspace
from engagement.rescoring import what_if
from engagement.rescoring.what_if import RankedSubject, RankingPreview, ScoringDefinition

SCOPE_TITLES: dict[Scope, str] = {"account": "Accounts", "user": "Users"}
NOT_SCORED_MESSAGE = "The workspace is not scored yet; look again in a moment."
TIMED_OUT_MESSAGE = (
    "Computing the effect takes too long to wait for it here. Saving computes it in the "
    "background, and the scores of before the change are shown until it is done."
)
NOTHING_CHANGED_MESSAGE = "Nothing is changed that would move anybody: these rank highest now."
CHANGE_SOMETHING_MESSAGE = (
    "These rank highest now. Change something above to see how they would move."
)
TOO_MANY_USERS_MESSAGE = "These accounts have too many users to be scored while you wait."
EXACT_MESSAGE = "Computed for everybody, as saving would."


class RankingRow(NamedTuple):
    """A line of a ranking; ``kind`` of its move is "up", "down", "new", "leaves" or nothing."""

    rank: int
    name: str
    url: str
    score: float
    kind: str = ""
    move: str = ""
    said: str = ""


class RankingTable(NamedTuple):
    title: str
    rows: list[RankingRow]


@dataclass(frozen=True)
class RankingComparison:
    title: str
    sides: list[RankingTable]
    # Where not everybody was looked at.
    note: str = ""


@dataclass(frozen=True)
class WhatIfEffect:
    """``faults`` say what of the form cannot be used, one sentence each."""

    text: str
    rankings: list[RankingComparison] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def unchanged_effect(score_set: ScoreSet | None) -> WhatIfEffect:
    """The highest ranks, of a form that nobody has changed yet."""
    if score_set is None:
        return WhatIfEffect(NOT_SCORED_MESSAGE)
    return WhatIfEffect(CHANGE_SOMETHING_MESSAGE, _as_they_are(score_set))


def form_effect(
    score_set: ScoreSet | None,
    form: RuleForm,
    weights: Any,
    today: date,
) -> WhatIfEffect:
    """What saving the form would change. Both are bound and nothing of them is saved."""
    if score_set is None:
        return WhatIfEffect(NOT_SCORED_MESSAGE)
    if faults := list(_faults(form, weights)):
        return WhatIfEffect("The effect shows once this is put right:", faults=faults)
    asked = _definition(form, weights)
    if asked == what_if.scoring_definition(score_set):
        return WhatIfEffect(NOTHING_CHANGED_MESSAGE, _as_they_are(score_set))
    ends = time.monotonic() + PREVIEW_TIMEOUT_SECONDS
    try:
        with sql.statement_timeout(PREVIEW_TIMEOUT_SECONDS):
            tried = what_if.preview_ranking(
                score_set, asked, today, lambda: time.monotonic() > ends
            )
    except sql.StatementTimeout:
        return WhatIfEffect(TIMED_OUT_MESSAGE)
    is_exact = all(one.sample_size is None for one in tried.values())
    return WhatIfEffect(
        EXACT_MESSAGE if is_exact else "",
        [_compared(scope, tried.get(scope), score_set.workspace_id) for scope in SCOPE_TITLES],
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


def _definition(form: RuleForm, weights: Any) -> ScoringDefinition:
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
    return ScoringDefinition(
        form.cleaned_data["lookback_days"],
        form.cleaned_data["default_weight"],
        workspace.audience,
        {name if name in exact else name.strip(): weight for name, weight in given.items()},
    )


# --- In words -------------------------------------------------------------------------------


def _as_they_are(score_set: ScoreSet) -> list[RankingComparison]:
    now = what_if.current_ranking(score_set)
    return [
        RankingComparison(
            title,
            [RankingTable("Now", [_row(place, score_set.workspace_id) for place in now[scope]])],
        )
        for scope, title in SCOPE_TITLES.items()
    ]


def _compared(scope: Scope, found: RankingPreview | None, workspace_id: int) -> RankingComparison:
    if found is None:
        return RankingComparison(SCOPE_TITLES[scope], [], TOO_MANY_USERS_MESSAGE)
    now = [_row(place, workspace_id, *_leaving(place)) for place in found.current]
    then = [_row(place, workspace_id, *_moved(place)) for place in found.with_change]
    note = ""
    if found.sample_size is not None:
        note = (
            f"Estimated from {found.sample_size:,} {scope}s: those who rank highest now, and "
            "others picked evenly from all. Scores are about right; who ranks far below may "
            "be missing."
        )
    return RankingComparison(
        SCOPE_TITLES[scope], [RankingTable("Now", now), RankingTable("With the change", then)], note
    )


def _moved(place: RankedSubject) -> tuple[str, str, str]:
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


def _leaving(place: RankedSubject) -> tuple[str, str, str]:
    if place.other_rank is None:
        return "leaves", "out", "would not be ranked"
    if place.other_rank > what_if.RANKS_SHOWN:
        return "leaves", f"→ {place.other_rank}", f"would rank {place.other_rank}"
    return "", "", ""


def _row(place: RankedSubject, workspace_id: int, *move: str) -> RankingRow:
    scope: Scope = "account" if place.subject._meta.model_name == "account" else "user"
    url = subject_url(place.subject, scope, workspace_id)
    return RankingRow(place.rank, display_name(place.subject), url, place.score, *move)
