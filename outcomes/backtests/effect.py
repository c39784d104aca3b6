"""What a change of weights would have predicted, while somebody edits them."""

from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from engagement.models import ScoreSet, Workspace
from engagement.rescoring.what_if import ScoringDefinition, scoring_definition
from outcomes.backtests import storage
from outcomes.backtests.predictions import day_of_prediction, predictions
from outcomes.backtests.results import Verdict
from outcomes.kinds import Kind
from outcomes.past_scores.scores import past_scores
from outcomes.reading import read_outcomes
from outcomes.statistics.estimates import Estimate

# Somebody waits: an even sample of outcomes, and of accounts for benchmarks.
LIMIT, SAMPLE_SIZE = 1_000, 200
DAYS, DAYS_OF_EVALUATIONS = 60, 14


class PredictionEffect(NamedTuple):
    """The AUC of today's score and with the change, for the same outcomes of one kind, *days*
    before; and the second minus the first, paired."""

    kind: Kind
    days: int
    now: Estimate
    with_change: Estimate
    difference: Estimate


def would_have_predicted(
    score_set: ScoreSet,
    definition: ScoringDefinition,
    today: date,
    out_of_time: Callable[[], bool] = lambda: False,
) -> PredictionEffect | None:
    """What scores by the definition would have predicted, beside those of the workspace's set.

    By the first kind of outcome whose stored backtest has enough; None without one, and if the
    definition gives the same past scores: audiences are left out of these. Raises
    sql.StatementTimeout, also if *out_of_time* returns true before the end.
    """
    workspace = Workspace.objects.get(pk=score_set.workspace_id)
    workspace.scores, current = score_set, scoring_definition(score_set)
    choice = _kind_with_enough(workspace)
    if choice is None or storage.fingerprint(definition) == storage.fingerprint(current):
        return None
    kind, days = choice
    outcomes = read_outcomes(workspace, kind, today, limit=LIMIT).outcomes
    pairs = {(own.account_id, day_of_prediction(kind, own, days)) for own in outcomes}
    now, then = (
        predictions(
            kind, outcomes, days, past_scores(score_set, own, pairs, SAMPLE_SIZE, out_of_time)
        )
        for own in (current, definition)
    )
    # numpy takes 0.1 s and 20 MB, and processes that serve pages import this module.
    from outcomes.backtests.evaluation import compare

    estimates = compare(now, then)
    return PredictionEffect(kind, days, *estimates) if estimates else None


def _kind_with_enough(workspace: Workspace) -> tuple[Kind, int] | None:
    for kind in Kind:
        days = DAYS_OF_EVALUATIONS if kind is Kind.EVALUATION else DAYS
        dated = storage.find(workspace, kind)
        horizons = dated.backtest.horizons if dated else ()
        if any(own.days == days and own.verdict is not Verdict.TOO_FEW for own in horizons):
            return kind, days
    return None
