"""Suggests weights for a workspace, from what became of its accounts."""

from datetime import date

import msgspec
import numpy as np

from engagement.models import Workspace
from engagement.rescoring.what_if import ScoringDefinition, scoring_definition
from outcomes.backtests.predictions import day_of_prediction
from outcomes.kinds import Kind, Outcome
from outcomes.past_scores.days import half_life_of
from outcomes.reading import read_outcomes
from outcomes.suggestions.choice import WINDOWS, Definition, Examples, Window, choose
from outcomes.suggestions.counts import Counts, load_counts
from outcomes.suggestions.results import Suggestion, Weights
from outcomes.suggestions.walk_forward import judge

# Days before an outcome, and the most outcomes that are read.
HORIZON_DAYS, LIMIT = 30, 2_000
# With fewer, the part that is judged has hardly 30.
LEAST_OUTCOMES = 60


def suggest(workspace: Workspace, kind: Kind, today: date) -> Suggestion:
    """The weights that the workspace's outcomes suggest, and how such suggestions predicted.

    The workspace must have scores. Raises sql.StatementTimeout.
    """
    assert workspace.scores is not None, "A suggestion compares with the present scores."
    definition = scoring_definition(workspace.scores)
    read = read_outcomes(workspace, kind, today, limit=LIMIT)
    outcomes = [
        (day, outcome)
        for outcome in read.outcomes
        if (day := day_of_prediction(kind, outcome, HORIZON_DAYS))
        and outcome.known_on <= today
        and not outcome.is_answered(day)
        and (kind is not Kind.EVALUATION or outcome.began_on <= day)
    ]
    outcomes.sort(key=lambda pair: (pair[0], pair[1].account_id))
    present = Window(definition.lookback_days, half_life_of(definition))
    windows = list(dict.fromkeys([present, *WINDOWS]))
    pairs = [(outcome.account_id, day) for day, outcome in outcomes]
    counts = load_counts(workspace.product_id, pairs, list(definition.weights), windows)
    examples = _examples(outcomes, counts, definition, present)
    suggestion = Suggestion(
        kind,
        HORIZON_DAYS,
        len(examples.is_good),
        int((~examples.is_good).sum()),
        LEAST_OUTCOMES,
        weights_of(definition),
        read.revision,
        read.sampled_of,
    )
    if suggestion.outcomes < LEAST_OUTCOMES:
        return suggestion
    judgement = judge(examples)
    if judgement.gain is None:
        return suggestion
    result = choose(examples, np.arange(suggestion.outcomes))
    *own, default = (int(weight) for weight in result.weights)
    # Weights of names that no account has stay as they are.
    weights = {**definition.weights} | dict(zip(counts.names, own, strict=True))
    suggested = Weights(*result.window, default, weights)
    return msgspec.structs.replace(suggestion, suggested=suggested, judgement=judgement)


def weights_of(definition: ScoringDefinition) -> Weights:
    return Weights(
        definition.lookback_days,
        half_life_of(definition),
        definition.default_weight,
        dict(definition.weights),
    )


def _examples(
    outcomes: list[tuple[date, Outcome]],
    counts: Counts,
    definition: ScoringDefinition,
    present: Window,
) -> Examples:
    """Those of accounts that had data then."""
    own = [definition.weights.get(name, definition.default_weight) for name in counts.names]
    has_data = counts.has_data
    rows = [
        (outcome.is_good, outcome.account_id, day.toordinal(), outcome.known_on.toordinal())
        for (day, outcome), has_row in zip(outcomes, has_data, strict=True)
        if has_row
    ]
    is_good, accounts, days, known_on = np.array(rows, np.int64).reshape(-1, 4).T
    return Examples(
        {window: values[has_data] for window, values in counts.by_window.items()},
        is_good.astype(bool),
        accounts,
        days,
        known_on,
        Definition(present, np.array([*own, definition.default_weight], float)),
    )
