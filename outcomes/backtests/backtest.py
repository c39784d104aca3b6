"""The backtest of a workspace: its scores of past days, against what became of its accounts."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta

from engagement.models import ScoreSet, Segment, Workspace
from engagement.models.kept_defaults import event_retention_days
from engagement.rescoring.what_if import ScoringDefinition, scoring_definition
from engagement.segments import members
from outcomes.backtests.evaluation import evaluate
from outcomes.backtests.predictions import day_of_prediction, predictions
from outcomes.backtests.results import Backtest
from outcomes.kinds import Exclusion, Kind, Outcome, OutcomeSet
from outcomes.past_scores.late_events import late_share
from outcomes.past_scores.scores import Pair, past_scores
from outcomes.reading import LIMIT, read_outcomes

# Days before an outcome.
HORIZONS = (14, 30, 60, 90)
# Of as many, an even sample of all outcomes, those of a segment's accounts are taken.
LIMIT_BEFORE_SEGMENT = 50_000


def run(
    workspace: Workspace,
    kind: Kind,
    today: date,
    definition: ScoringDefinition | None = None,
    segment: Segment | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Backtest:
    """Compute the backtest of the definition, by default the one that readers see.

    With a segment, the accounts that are in it now count alone. A workspace without scores has no
    predictions. Raises sql.StatementTimeout, also if *out_of_time* returns true before the end.
    """
    outcomes = _read(workspace, kind, today, segment)
    score_set = workspace.scores
    scores = {}
    if score_set is not None:
        definition = definition or scoring_definition(score_set)
        pairs = {pair for days in HORIZONS for pair in _pairs(kind, outcomes.outcomes, days)}
        scores = past_scores(score_set, definition, pairs, out_of_time=out_of_time)
    horizons = []
    for days in HORIZONS:
        own = predictions(kind, outcomes.outcomes, days, scores)
        late = None
        if score_set is not None and definition is not None:
            late = late_share(score_set, definition, own.pairs, _events_from(today))
        horizons.append(evaluate(own, late))
    all_days = [outcome.day for outcome in outcomes.outcomes]
    return Backtest(
        kind,
        horizons,
        dict(outcomes.excluded),
        min(all_days, default=None),
        max(all_days, default=None),
        outcomes.revision,
        outcomes.sampled_of,
        segment.pk if segment else None,
    )


def _events_from(today: date) -> date:
    """The first day of which all events are stored."""
    return today - timedelta(days=event_retention_days())


def _pairs(kind: Kind, outcomes: Sequence[Outcome], days: int) -> list[Pair]:
    """The scores that predictions need: not those of outcomes that were answered by then."""
    with_days = ((outcome, day_of_prediction(kind, outcome, days)) for outcome in outcomes)
    return [(outcome.account_id, day) for outcome, day in with_days if not outcome.is_answered(day)]


# --- Outcomes -------------------------------------------------------------------------------


def _read(workspace: Workspace, kind: Kind, today: date, segment: Segment | None) -> OutcomeSet:
    """The outcomes of the workspace, or of the segment's accounts, until *today*."""
    limit = LIMIT if segment is None else LIMIT_BEFORE_SEGMENT
    read = read_outcomes(workspace, kind, today, limit=limit)
    outcomes = [outcome for outcome in read.outcomes if max(outcome.day, outcome.known_on) <= today]
    excluded = dict(read.excluded)
    if later := len(read.outcomes) - len(outcomes):
        excluded[Exclusion.OPEN] = excluded.get(Exclusion.OPEN, 0) + later
    sampled_of = read.sampled_of
    if segment is not None and workspace.scores is not None:
        accounts = _members(workspace.scores, segment, {o.account_id for o in outcomes})
        outcomes = [outcome for outcome in outcomes if outcome.account_id in accounts]
        if sampled_of is not None:
            sampled_of = round(len(outcomes) * sampled_of / len(read.outcomes))
        step = -(-len(outcomes) // LIMIT) or 1
        sampled_of = sampled_of or (len(outcomes) if step > 1 else None)
        outcomes = outcomes[::step]
    return OutcomeSet(kind, outcomes, excluded, read.revision, sampled_of)


def _members(score_set: ScoreSet, segment: Segment, account_ids: set[int]) -> set[int]:
    """Those of the accounts that are in the segment now."""
    filter_ = members.members_filter(score_set, members.segment_rule(segment))
    rows = members.engagement_rows(score_set, "account").filter(filter_)
    return set(rows.filter(account_id__in=account_ids).values_list("account_id", flat=True))
