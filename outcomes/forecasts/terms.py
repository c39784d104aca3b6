"""The terms that end in the months ahead, with their chances, and how past months went."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import LiteralString, NamedTuple

from core.database import sql
from engagement.models import Workspace
from engagement.scopes import ACCOUNTS
from engagement.scores.formula import rounded_score
from outcomes.forecasts.results import MONTHS, PastCount, Term, month_after
from outcomes.kinds import Kind

STATEMENT_TIMEOUT_SECONDS = 60.0
# How months differed longer ago tells nothing of the present ones.
PAST_MONTHS = 36


# Terms that are not decided have a chance. One that has ended meanwhile, or whose account has no
# data, has the mean of all. What the customer has said is certain.
_TERMS: LiteralString = f"""
    WITH chances AS (
        SELECT account_id, license, day, seats, cents, chance, low, high, outcomes
        FROM engagement_accountchance
        WHERE product_id = %(product)s AND workspace_id = %(workspace)s AND kind = %(kind)s
          AND day >= %(today)s AND day < %(until)s),
    usual AS (
        SELECT avg(chance) AS chance, avg(low) AS low, avg(high) AS high, max(outcomes) AS outcomes
        FROM chances),
    decided AS (
        SELECT a.id AS account_id, o.license, o.day, o.seats, o.cents,
               CASE WHEN o.exclusion = '' THEN (o.result <> 'churned')::int
                    WHEN o.answered_on <= %(today)s THEN 0 END AS chance
        FROM outcomes_licenseoutcome o
        JOIN engagement_account a
          ON a.product_id = %(product)s AND a.external_id = o.cloud_id AND o.cloud_id <> ''
        WHERE o.product_id = %(product)s AND o.kind = %(kind)s
          AND o.day >= %(first_day)s AND o.day < %(until)s
          AND (o.exclusion = '' AND (NOT %(is_monthly)s OR o.result = 'churned')
               OR o.exclusion = 'open')
          AND NOT EXISTS (
              -- By the key of the table: the planner knows nothing of the rows above.
              SELECT FROM engagement_accountchance c
              WHERE c.product_id = %(product)s AND c.workspace_id = %(workspace)s
                AND c.account_id = a.id AND c.kind = %(kind)s AND c.license = o.license
                AND c.day = o.day AND c.day >= %(today)s)),
    terms AS (
        SELECT c.account_id, c.license, c.day, c.seats, c.cents,
               CASE WHEN o.license IS NULL THEN c.chance
                    ELSE (o.result IN ('renewed', 'renewed_lower', 'stayed'))::int END AS chance,
               c.low, c.high, c.outcomes
        FROM chances c
        LEFT JOIN outcomes_licenseoutcome o
          ON o.product_id = %(product)s AND o.license = c.license AND o.kind = %(kind)s
             AND o.day = c.day AND o.answered_on <= %(today)s
        UNION ALL
        SELECT d.account_id, d.license, d.day, d.seats, d.cents, coalesce(d.chance, u.chance),
               u.low, u.high, u.outcomes
        FROM decided d CROSS JOIN usual u)
    SELECT t.license, t.account_id, t.day, t.seats, t.cents, t.chance,
           coalesce(t.low, t.chance), coalesce(t.high, t.chance), coalesce(t.outcomes, 0), e.raw
    FROM terms t
    LEFT JOIN engagement_accountengagement e
      ON e.product_id = %(product)s AND e.score_set_id = {sql.SCORE_SET}
         AND e.account_id = t.account_id
    ORDER BY t.account_id, t.day, t.license
"""
_CHANCE = 5
# The terms of an account go together. A quarter of monthly licenses counts as a month.
_PAST: LiteralString = """
    WITH sites AS (
        SELECT date_trunc(%(unit)s, day) AS unit, cloud_id, count(*) AS terms,
               count(*) FILTER (WHERE result <> 'churned') AS good,
               count(*) FILTER (WHERE exclusion = 'open') AS open
        FROM outcomes_licenseoutcome
        WHERE product_id = %(product)s AND kind = %(kind)s AND exclusion IN ('', 'open')
          AND day >= %(since)s AND day < %(until)s
        GROUP BY 1, 2)
    SELECT unit::date, sum(terms)::float8, sum(good)::float8, sum(terms * terms)::float8 FROM sites
    GROUP BY unit HAVING sum(open) = 0 ORDER BY unit
"""


class TermsAhead(NamedTuple):
    """The terms that are due, and how many more there are whose chance nobody can tell, because no
    term was decided before."""

    terms: list[Term]
    unknown: int


def read_terms(workspace: Workspace, kind: Kind, today: date) -> TermsAhead:
    """The terms of the present month and of those after it, those of an account together.

    A monthly license is in each month in which it renews, with the chance to be still there then.
    """
    first_day = today.replace(day=1)
    parameters = {
        "product": workspace.product_id,
        "workspace": workspace.pk,
        "score_set": workspace.scores_id,
        "kind": kind.value,
        "is_monthly": kind is Kind.MONTHLY_STAY,
        "today": today,
        "first_day": first_day,
        "until": month_after(first_day, MONTHS),
    }
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        all_rows = sql.fetch(_TERMS, parameters)
    rows = [row for row in all_rows if row[_CHANCE] is not None]
    benchmark = ACCOUNTS.benchmark(workspace.scores) if workspace.scores else None
    terms = (
        Term._make(
            (
                *(license, account, day, _months_between(first_day, day), *rest),
                None if raw is None else rounded_score(raw, benchmark),
            )
        )
        for license, account, day, *rest, raw in rows
    )
    if kind is Kind.MONTHLY_STAY:
        terms = (each for term in terms for each in _monthly(term, today))
    return TermsAhead(list(terms), len(all_rows) - len(rows))


def _months_between(first: date, last: date) -> int:
    return 12 * (last.year - first.year) + last.month - first.month


def _monthly(term: Term, today: date) -> Iterator[Term]:
    """The renewals of a monthly license. Its chance is that of a quarter: each month has the third
    root of it, and a later one needs all before. If the term ends next month, the license has
    renewed in this one."""
    if term.day < today or term.chance == 0:
        certain = term._replace(low=0.0, high=0.0) if term.chance == 0 else term
        yield from (_in_month(certain, number) for number in range(term.month, MONTHS))
        return
    if term.month == 1:
        yield _in_month(term, 0)._replace(chance=1.0, low=1.0, high=1.0)
    for number in range(term.month, MONTHS):
        share = (number - term.month + 1) / 3
        chance, low, high = (value**share for value in (term.chance, term.low, term.high))
        yield _in_month(term, number)._replace(chance=chance, low=low, high=high)


def _in_month(term: Term, number: int) -> Term:
    """The same with a term that ends in the month of that number."""
    first = month_after(term.day, number - term.month)
    last = month_after(first, 1) - timedelta(days=1)
    return term._replace(day=first.replace(day=min(term.day.day, last.day)), month=number)


def past_counts(product_id: int, kind: Kind, today: date) -> dict[date, PastCount]:
    """How the past months went, by their first days (monthly licenses: quarters), expected from
    their common rate."""
    is_monthly = kind is Kind.MONTHLY_STAY
    first_day = today.replace(day=1)
    if is_monthly:
        first_day = month_after(first_day, -((first_day.month - 1) % 3))
    parameters = {
        "product": product_id,
        "kind": kind.value,
        "unit": "quarter" if is_monthly else "month",
        "since": month_after(first_day, -PAST_MONTHS),
        "until": first_day,
    }
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        rows = sql.fetch(_PAST, parameters)
    all_terms, all_good = (sum(row[column] for row in rows) for column in (1, 2))
    if not 0 < all_good < all_terms:
        return {}
    rate = all_good / all_terms
    return {
        month: PastCount(good, rate * terms, rate * (1 - rate) * squares)
        for month, terms, good, squares in rows
    }
