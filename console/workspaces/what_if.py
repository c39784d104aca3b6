"""How saving a workspace's form would change the top ranks."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple, cast

from django.db import transaction

from access.pages.subject_urls import subject_list_url, subject_url
from console.rules.previews import PREVIEW_TIMEOUT_SECONDS, display_name
from console.rules.rule_editor import RuleForm
from core.database import sql
from engagement.metric_names import Scope
from engagement.models import EventName, ScoreSet, Segment, Workspace
from engagement.rescoring import what_if
from engagement.rescoring.what_if import RankedSubject, RankingPreview, ScoringDefinition
from engagement.segments import counts
from outcomes.backtests.effect import PredictionEffect, would_have_predicted
from outcomes.kinds import Kind

SEGMENTS_SHOWN = 10
SCOPE_TITLES: dict[Scope, str] = {"account": "Accounts", "user": "Users"}
NOT_SCORED_MESSAGE = "This workspace has no scores yet. Reload the page in a moment."
TIMED_OUT_MESSAGE = (
    "This is taking too long to compute here. If you save, it is computed in the background, and "
    "you see the old scores until it finishes."
)
NOTHING_CHANGED_MESSAGE = "Your changes do not affect the scores. These are the top ranks now."
CHANGE_SOMETHING_MESSAGE = (
    "These are the top ranks now. Change something above to see how they would move."
)
TOO_MANY_USERS_MESSAGE = "These accounts have too many users to score while you wait."
# The rankings above it do not wait longer for what is good to know.
PREDICTION_TIMEOUT_SECONDS = 2.0
# Nor does saving wait longer for a sentence.
SAVING_TIMEOUT_SECONDS = 1.0
OUTCOME_NAMES = {
    Kind.RENEWAL: "renewals",
    Kind.MONTHLY_STAY: "monthly stays",
    Kind.EVALUATION: "evaluations",
    Kind.TRAIT: "outcomes",
    Kind.DORMANCY: "outcomes of active accounts",
}
EXACT_MESSAGE = "Computed for all users and accounts, as saving would."


class RankingRow(NamedTuple):
    """A row of a ranking. The ``kind`` of its move is "up", "down", "new", "leaves", or ""."""

    rank: int
    name: str
    url: str
    score: float
    kind: str = ""
    move: str = ""
    move_text: str = ""


class RankingTable(NamedTuple):
    title: str
    rows: list[RankingRow]


class SegmentChange(NamedTuple):
    """How many members a segment has now, and would have with the change."""

    name: str
    url: str
    now: int
    then: int


@dataclass(frozen=True)
class RankingComparison:
    title: str
    tables: list[RankingTable]
    # Says so if the ranking is an estimate.
    note: str = ""
    segments: list[SegmentChange] = field(default_factory=list)


@dataclass(frozen=True)
class WhatIfEffect:
    """``problems`` say what is wrong with the form, one sentence each; ``prediction`` what the
    score would have predicted."""

    text: str
    rankings: list[RankingComparison] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    prediction: str = ""


def unchanged_effect(score_set: ScoreSet | None) -> WhatIfEffect:
    """The top ranks, for a form without changes."""
    if score_set is None:
        return WhatIfEffect(NOT_SCORED_MESSAGE)
    return WhatIfEffect(CHANGE_SOMETHING_MESSAGE, _current_rankings(score_set))


def form_effect(
    score_set: ScoreSet | None,
    form: RuleForm,
    weights: Any,
    today: date,
) -> WhatIfEffect:
    """How saving the form and its weights would change the ranking. Both are bound and unsaved."""
    if score_set is None:
        return WhatIfEffect(NOT_SCORED_MESSAGE)
    if problems := list(_problems(form, weights)):
        return WhatIfEffect("Fix this to see the effect:", problems=problems)
    definition = _definition(form, weights)
    if definition == what_if.scoring_definition(score_set):
        return WhatIfEffect(NOTHING_CHANGED_MESSAGE, _current_rankings(score_set))
    deadline = time.monotonic() + PREVIEW_TIMEOUT_SECONDS
    try:
        with sql.statement_timeout(PREVIEW_TIMEOUT_SECONDS):
            previews = what_if.preview_ranking(
                score_set, definition, today, lambda: time.monotonic() > deadline
            )
    except sql.StatementTimeout:
        return WhatIfEffect(TIMED_OUT_MESSAGE)
    is_exact = all(preview.sample_size is None for preview in previews.values())
    return WhatIfEffect(
        EXACT_MESSAGE if is_exact else "",
        [_compare(scope, previews.get(scope), score_set) for scope in SCOPE_TITLES],
        prediction=_prediction(score_set, definition, today),
    )


def count_moved(
    score_set: ScoreSet | None, form: RuleForm, weights: Any, today: date
) -> int | None:
    """How many accounts get another rank by what is about to be saved. None if nobody can say at
    once."""
    if score_set is None or not what_if.scores_all(score_set):
        return None
    deadline = time.monotonic() + SAVING_TIMEOUT_SECONDS
    try:
        with sql.statement_timeout(SAVING_TIMEOUT_SECONDS):
            previews = what_if.preview_ranking(
                score_set, _definition(form, weights), today, lambda: time.monotonic() > deadline
            )
    except sql.StatementTimeout:
        return None
    return previews["account"].moved if "account" in previews else None


def _prediction(score_set: ScoreSet, definition: ScoringDefinition, today: date) -> str:
    """What the score would have predicted, as a sentence; "" if nobody can say in time."""
    deadline = time.monotonic() + PREDICTION_TIMEOUT_SECONDS
    try:
        with sql.cancel_after(PREDICTION_TIMEOUT_SECONDS), transaction.atomic():
            effect = would_have_predicted(
                score_set, definition, today, lambda: time.monotonic() > deadline
            )
    except sql.StatementTimeout:
        return ""
    return _prediction_sentence(effect) if effect else ""


def _prediction_sentence(effect: PredictionEffect) -> str:
    now, then, difference = effect.now, effect.with_change, effect.difference
    margin = (difference.high - difference.low) / 2
    is_shown = not difference.low <= 0 <= difference.high
    return (
        f"{effect.days} days before {now.outcomes:,} {OUTCOME_NAMES[effect.kind]}, it would have "
        f"predicted with an AUC of {then.value:.2f} ({then.low:.2f} to {then.high:.2f}), and "
        f"today’s score with {now.value:.2f} ({now.low:.2f} to {now.high:.2f}). Difference: "
        f"{difference.value:+.2f} ± {margin:.2f}{'' if is_shown else ', so none can be shown'}."
    ).replace(" -", " \N{MINUS SIGN}")


# --- The form -------------------------------------------------------------------------------


def _problems(form: RuleForm, weights: Any) -> Iterator[str]:
    for name in ("lookback_days", "half_life_days", "default_weight"):
        label = form[name].label
        yield from (f"{label}: {error}" for error in form.errors.get(name, ()))
    if form.rows and not form.rows.is_usable:
        yield from form.rows.errors or ["A condition is not valid. See its error."]
    yield from weights.non_form_errors()
    for row in weights.forms:
        if row in weights.deleted_forms:
            continue
        name = row["event"].value() or "an event without a name"
        for errors in row.errors.values():
            yield from (f"Weight of “{name}”: {error}" for error in errors)


def _definition(form: RuleForm, weights: Any) -> ScoringDefinition:
    weight_by_event = {
        row.cleaned_data["event"]: row.cleaned_data["weight"]
        for row in weights.forms
        # An empty row has no weight.
        if row not in weights.deleted_forms and "weight" in row.cleaned_data
    }
    workspace = cast(Workspace, form.instance)
    names = EventName.objects.filter(product_id=workspace.product_id, name__in=weight_by_event)
    existing = set(names.values_list("name", flat=True))
    return ScoringDefinition(
        form.cleaned_data["lookback_days"],
        form.cleaned_data["default_weight"],
        workspace.audience,
        {
            name if name in existing else name.strip(): weight
            for name, weight in weight_by_event.items()
        },
        form.cleaned_data["half_life_days"],
    )


# --- The rankings ---------------------------------------------------------------------------


def _current_rankings(score_set: ScoreSet) -> list[RankingComparison]:
    rankings = what_if.current_ranking(score_set)
    workspace_id = score_set.workspace_id
    return [
        RankingComparison(
            title,
            [RankingTable("Now", [_row(ranked, workspace_id) for ranked in rankings[scope]])],
        )
        for scope, title in SCOPE_TITLES.items()
    ]


def _compare(
    scope: Scope, preview: RankingPreview | None, score_set: ScoreSet
) -> RankingComparison:
    if preview is None:
        return RankingComparison(SCOPE_TITLES[scope], [], TOO_MANY_USERS_MESSAGE)
    workspace_id = score_set.workspace_id
    now = [_row(ranked, workspace_id, *_leaving_move(ranked)) for ranked in preview.current]
    then = [_row(ranked, workspace_id, *_move(ranked)) for ranked in preview.with_change]
    note = ""
    if preview.sample_size is not None:
        note = (
            f"Estimated from {preview.sample_size:,} {scope}s: the top ranks and an even sample of "
            f"the others. Scores are approximate, and {scope}s that rank far below may be missing."
        )
    return RankingComparison(
        SCOPE_TITLES[scope],
        [RankingTable("Now", now), RankingTable("With the change", then)],
        note,
        _segment_changes(scope, preview, score_set),
    )


def _segment_changes(
    scope: Scope, preview: RankingPreview, score_set: ScoreSet
) -> list[SegmentChange]:
    """The segments that would gain or lose most members."""
    segments = list(Segment.objects.filter(pk__in=preview.members))
    now = counts.segment_counts(score_set, segments)
    changes = [
        SegmentChange(
            segment.name,
            subject_list_url(scope, score_set.workspace_id, segment.pk),
            now[segment.pk],
            preview.members[segment.pk],
        )
        for segment in segments
        if now[segment.pk] != preview.members[segment.pk]
    ]
    changes.sort(key=lambda change: (-abs(change.then - change.now), change.name))
    return changes[:SEGMENTS_SHOWN]


def _move(ranked: RankedSubject) -> tuple[str, str, str]:
    if ranked.other_rank is None:
        return "new", "new", "not ranked now"
    by = ranked.other_rank - ranked.rank
    if by == 0:
        return "", "", ""
    return (
        ("up", f"▲ {by}", f"up from {ranked.other_rank}")
        if by > 0
        else ("down", f"▼ {-by}", f"down from {ranked.other_rank}")
    )


def _leaving_move(ranked: RankedSubject) -> tuple[str, str, str]:
    if ranked.other_rank is None:
        return "leaves", "out", "would not be ranked"
    if ranked.other_rank > what_if.RANKS_SHOWN:
        return "leaves", f"→ {ranked.other_rank}", f"would rank {ranked.other_rank}"
    return "", "", ""


def _row(ranked: RankedSubject, workspace_id: int, *move: str) -> RankingRow:
    scope: Scope = "account" if ranked.subject._meta.model_name == "account" else "user"
    url = subject_url(ranked.subject, scope, workspace_id)
    return RankingRow(ranked.rank, display_name(ranked.subject), url, ranked.score, *move)
