"""One look at what a model predicts: past cases are read, the model is fitted again if it is
outdated, and the chances of what is running are stored, part by part."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from core.jobs import run
from core.models import Job
from engagement.models import ScoreSet, Workspace
from outcomes.chances import cases as all_cases
from outcomes.chances import storage
from outcomes.chances.cases import Place, RunningCase, day_of_past
from outcomes.chances.features import load_features, with_seats
from outcomes.chances.model import (
    FEATURES,
    Chances,
    Model,
    PastCases,
    as_past_cases,
    evidence,
    learn,
    predict,
)
from outcomes.chances.proof import prove
from outcomes.chances.results import Evidence
from outcomes.chances.storage import ChanceRow
from outcomes.kinds import Kind
from outcomes.models import ChanceModel
from outcomes.reading import read_outcomes
from outcomes.sources import licenses
from outcomes.statistics.rates import wilson

Array: TypeAlias = npt.NDArray[Any]

# The most past cases of a model, and the cases of a step.
MOST_OUTCOMES, CASES_PER_STEP = 2_000, 5_000
# A model is fitted again after new outcomes, after a while while there were too few, and always.
AFTER_OUTCOMES, WHILE_TOO_FEW = timedelta(days=1), timedelta(hours=1)
ALWAYS = timedelta(days=7)


def past_cases(
    workspace: Workspace, score_set: ScoreSet, kind: Kind, age: int, today: date
) -> PastCases:
    """What became of accounts, with what was known of them at that age. Raises
    sql.StatementTimeout."""
    read = read_outcomes(workspace, kind, today, limit=MOST_OUTCOMES)
    with_days = [(day_of_past(kind, age, outcome), outcome) for outcome in read.outcomes]
    pairs = [(day, outcome) for day, outcome in with_days if day and outcome.known_on <= today]
    pairs.sort(key=lambda pair: (pair[0], pair[1].account_id))
    features = load_features(score_set, [(outcome.account_id, day) for day, outcome in pairs])
    own = [pair for pair in pairs if (pair[1].account_id, pair[0]) in features]
    values = [
        with_seats(features[outcome.account_id, day], outcome.seats_on(day)) for day, outcome in own
    ]
    return as_past_cases([outcome for _, outcome in own], [day for day, _ in own], values)


@dataclass
class Look:
    """The look of a job at one model, as of a time."""

    job: Job
    workspace: Workspace
    score_set: ScoreSet
    kind: Kind
    age: int
    now: datetime

    def part(self, after: Place | None) -> Place | None:
        """Look at the next cases after that place. Returns the last one's if more follow.

        Raises sql.StatementTimeout and run.LeaseLost.
        """
        row = self._model(is_first=after is None)
        cases = all_cases.running(
            self.workspace, self.kind, self.age, self._today, after, CASES_PER_STEP
        )
        rows = self._predict(row, cases)
        if rows:
            with storage.writing(self.workspace, self.job) as has_product:
                if has_product:
                    storage.write(self.workspace, self.kind, self._today, rows)
        return all_cases.after(cases, CASES_PER_STEP)

    @property
    def _today(self) -> date:
        return self.now.date()

    @cached_property
    def _past(self) -> PastCases:
        return past_cases(self.workspace, self.score_set, self.kind, self.age, self._today)

    # --- The model ------------------------------------------------------------------------

    def _model(self, *, is_first: bool) -> ChanceModel:
        latest = storage.models(self.workspace, self.kind).get(self.age)
        is_of_licenses = self.kind in licenses.KINDS
        revision = licenses.revision_of(self.workspace.product_id) if is_of_licenses else None
        if (
            latest
            and self._knows_all_features(latest)
            and not (is_first and self._is_outdated(latest, revision))
        ):
            return latest
        model = learn(self._past, np.arange(len(self._past.is_good)))
        row = ChanceModel(
            product_id=self.workspace.product_id,
            workspace=self.workspace,
            kind=self.kind,
            age=self.age,
            fitted_at=self.now,
            revision=revision,
            score_set_id=self.score_set.pk,
            outcomes=len(self._past.is_good),
            good=int(self._past.is_good.sum()),
            coefficients=msgspec.to_builtins(model),
            proof=msgspec.to_builtins(prove(self._past) if model else None),
        )
        with run.holding(self.job):
            row.save()
        return row

    def _knows_all_features(self, row: ChanceModel) -> bool:
        """Whether this release can use the model: an earlier one knew fewer features."""
        return row.coefficients is None or len(row.coefficients["means"]) == len(FEATURES)

    def _is_outdated(self, row: ChanceModel, revision: int | None) -> bool:
        if row.score_set_id != self.score_set.pk:
            return True
        if not row.outcomes and revision != row.revision:
            return True
        since = self.now - row.fitted_at
        if revision is not None and revision == row.revision:
            return since >= ALWAYS
        return since >= (WHILE_TOO_FEW if row.coefficients is None else AFTER_OUTCOMES)

    # --- What it predicts -----------------------------------------------------------------

    def _predict(self, row: ChanceModel, cases: Sequence[RunningCase]) -> list[ChanceRow]:
        pairs = [(case.account_id, case.until) for case in cases]
        features = load_features(self.score_set, pairs)
        own = [case for case in cases if (case.account_id, case.until) in features]
        if not own or not row.outcomes:
            return []
        values = np.array(
            [with_seats(features[case.account_id, case.until], case.seats) for case in own], float
        )
        chances, why = self._chances(row, values)
        return [
            ChanceRow(
                account_id=case.account_id,
                license=case.license,
                began_on=case.began_on,
                day=case.day,
                chance=float(chances.value[place]),
                low=float(chances.low[place]),
                high=float(chances.high[place]),
                outcomes=row.outcomes,
                is_share=row.coefficients is None,
                version=row.pk,
                seats=case.seats,
                cents=case.cents,
                evidence=msgspec.json.encode(why[place]).decode() if why else "{}",
            )
            for place, case in enumerate(own)
        ]

    def _chances(self, row: ChanceModel, values: Array) -> tuple[Chances, list[Evidence]]:
        """Of accounts without licenses only the facts: there are too many to compare them all."""
        if row.coefficients is None:
            share = wilson(row.good, row.outcomes)
            assert share is not None, "There are outcomes."
            # Nothing is certain because a few ended alike: half an outcome of each kind more.
            value = share.value if 0 < row.good < row.outcomes else _likely(row)
            return Chances(*(np.full(len(values), x) for x in (value, share.low, share.high))), []
        model = msgspec.convert(row.coefficients, Model)
        past = self._past if self.kind in licenses.KINDS else None
        return predict(model, values), evidence(model, values, past)


def _likely(row: ChanceModel) -> float:
    """The mean of Jeffreys' posterior of the share of good outcomes."""
    return (row.good + 0.5) / (row.outcomes + 1)
