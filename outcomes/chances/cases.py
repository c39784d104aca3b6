"""What was decided about accounts, and what is being decided, each with the day whose evening tells
how likely it is.

An evaluation is looked at on its days 3, 7, 14, and 21, as it stood then: between two of them
nothing moves. A term is looked at each day, by what terms were that had about as many days left. A
monthly license is asked whether it stays for a quarter, from before the quarter. Without licenses,
an account that was active in the last 30 days is asked whether it is in the next 30, and one whose
trait is not bad whether it stays so for a quarter.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, LiteralString, NamedTuple, TypeAlias

from core.database import sql
from engagement.models import ScoreSet, Workspace
from outcomes.kinds import Kind, Outcome
from outcomes.settings import kinds_on, load_settings
from outcomes.sources import licenses
from outcomes.sources.traits import IS_BAD

DAY = timedelta(days=1)
# Days of the evaluation; of other kinds, days before the decision.
AGES = {
    Kind.EVALUATION: (3, 7, 14, 21),
    Kind.RENEWAL: (14, 30, 60, 90, 120),
    Kind.MONTHLY_STAY: (14, 30, 60, 90, 120),
    Kind.TRAIT: (90,),
    Kind.DORMANCY: (30,),
}
# Terms that end later have no chance yet.
AHEAD = timedelta(days=125)
# More than there are: a bound of memory.
MOST_RUNNING = 50_000
# The account and the license of a case, in whose order cases are looked at.
Place: TypeAlias = tuple[int, str]


class RunningCase(NamedTuple):
    """What is being decided about an account: since when, and on which day. The events of days
    until ``until`` tell."""

    account_id: int
    license: str
    began_on: date
    day: date
    seats: int | None
    cents: int | None
    until: date


def kinds_of(workspace: Workspace) -> list[Kind]:
    """The kinds that chances are computed of: those of licenses, or without any the others."""
    own = [kind for kind in kinds_on(workspace) if kind in AGES]
    of_licenses = [kind for kind in own if kind in licenses.KINDS]
    return of_licenses if licenses.kinds_of(workspace.product_id) else own


def day_of_past(kind: Kind, age: int, outcome: Outcome) -> date | None:
    """The day whose evening tells, *age* days into an evaluation or before a decision; None if what
    became of the account was known by then, or the evaluation was over."""
    match kind:
        case Kind.EVALUATION:
            day = outcome.began_on + age * DAY
            if day > outcome.day:
                return None
        case Kind.RENEWAL:
            day = outcome.day - age * DAY
        case Kind.MONTHLY_STAY:
            day = outcome.began_on - age * DAY
        case _:
            day = outcome.began_on - DAY
    return None if outcome.is_answered(day) else day


# --- What is running ------------------------------------------------------------------------

# What the customer has answered already, by cancelling or unsubscribing, is not running. Of several
# decisions about a license, the next one is.
OPEN: LiteralString = """
    FROM outcomes_licenseoutcome o
    JOIN engagement_account a ON a.product_id = %(product)s AND a.external_id = o.cloud_id
        AND a.is_identified
    WHERE o.product_id = %(product)s AND o.kind = %(kind)s AND o.cloud_id <> ''
      AND o.exclusion = 'open' AND o.known_on IS NULL
      AND (o.answered_on IS NULL OR o.answered_on > %(today)s)
      AND o.day BETWEEN %(today)s AND %(until)s
"""
_LICENSES: LiteralString = f"""
    SELECT DISTINCT ON (a.id, o.license) a.id, o.license, o.began_on, o.day, o.seats, o.cents
    {OPEN}
    ORDER BY a.id, o.license, o.day LIMIT %(most)s
"""
_ACCOUNTS: LiteralString = f"""
    SELECT e.account_id FROM engagement_accountengagement e
    JOIN engagement_account a
        ON a.product_id = %(product)s AND a.id = e.account_id AND a.is_identified
    WHERE e.product_id = %(product)s AND e.score_set_id = {sql.SCORE_SET}
      AND e.account_id > %(after)s AND {{condition}}
    ORDER BY e.account_id LIMIT %(limit)s
"""
_ACTIVE: LiteralString = "e.last_active_at >= %(since)s"
_NOT_BAD: LiteralString = f"""
    left(a.traits ->> %(trait)s, 200) <> ''
    AND NOT {IS_BAD.format(value="left(a.traits ->> %(trait)s, 200)")}
"""


def running(
    workspace: Workspace, kind: Kind, age: int, today: date, after: Place | None, limit: int
) -> list[RunningCase]:
    """What is being decided and is looked at by the model of the *age*, in the order of places: the
    first *limit* cases after *after*. The workspace must have scores."""
    assert workspace.scores is not None, "Nobody is active without scores."
    if kind in licenses.KINDS:
        rows = sql.fetch(_LICENSES, open_parameters(workspace.product_id, kind, today))
        cases = [(*row, _until(kind, row[2], row[3], age, today)) for row in rows]
        return [
            RunningCase(*case)
            for case in cases
            if case[-1] is not None and (after is None or case[:2] > after)
        ][:limit]
    return _running_accounts(workspace, workspace.scores, kind, age, today, after, limit)


def open_parameters(product_id: int, kind: Kind, today: date) -> dict[str, Any]:
    """The parameters of ``OPEN``. An evaluation may end at any time."""
    until = date.max if kind is Kind.EVALUATION else today + AHEAD
    own = {"product": product_id, "kind": kind.value, "today": today}
    return {**own, "until": until, "most": MOST_RUNNING}


def _until(kind: Kind, began_on: date, day: date, age: int, today: date) -> date | None:
    """The last day that tells, if the case is looked at by the model of the *age*. Today is not
    over."""
    yesterday = today - DAY
    if kind is Kind.EVALUATION:
        ages = [each for each in AGES[kind] if began_on + each * DAY <= yesterday]
        return began_on + age * DAY if ages and ages[-1] == age else None
    days = ((began_on if kind is Kind.MONTHLY_STAY else day) - today).days
    nearest = min(AGES[kind], key=lambda each: abs(each - days))
    return yesterday if nearest == age else None


def _running_accounts(
    workspace: Workspace,
    score_set: ScoreSet,
    kind: Kind,
    age: int,
    today: date,
    after: Place | None,
    limit: int,
) -> list[RunningCase]:
    settings = load_settings(workspace)
    parameters = {
        "product": workspace.product_id,
        "score_set": score_set.pk,
        "after": after[0] if after else 0,
        "limit": limit,
        "since": today - 30 * DAY,
        "trait": settings.trait,
        "values": [value.lower() for value in settings.values],
        "below": settings.below,
    }
    condition = _NOT_BAD if kind is Kind.TRAIT else _ACTIVE
    rows = sql.fetch(_ACCOUNTS.format(condition=condition), parameters)
    return [
        RunningCase(id, "", today, today + age * DAY, None, None, today - DAY) for (id,) in rows
    ]


def after(cases: Sequence[RunningCase], limit: int) -> Place | None:
    """Where the next part begins; None if this one, of *limit* cases at most, is the last."""
    return (cases[-1].account_id, cases[-1].license) if len(cases) == limit else None
