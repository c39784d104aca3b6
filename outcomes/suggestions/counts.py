"""The counts by event name that accounts had on past days, in each of the windows that are tried.

Audiences are left out, as in past scores: identified users count, as they are now.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any, LiteralString, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from core.database import sql
from engagement.models import EventName
from outcomes.past_scores.days import STATEMENT_TIMEOUT_SECONDS
from outcomes.suggestions.choice import Window

Array: TypeAlias = npt.NDArray[Any]

PAIRS_PER_STATEMENT = 200
# Names with a column of their own, and the accounts whose names they are.
MOST_NAMES, NAMING_ACCOUNTS = 40, 300


class Counts(NamedTuple):
    """Counts by window, with a row for each account and day, and a column for each name; the last
    one is of all other names. ``has_data`` says which accounts had counts by then."""

    names: Sequence[str]
    by_window: dict[Window, Array]
    has_data: Array


# Names with a weight come first.
_FREQUENT: LiteralString = """
    SELECT n.id, n.name
    FROM (
        SELECT d.event_name_id AS id, count(DISTINCT d.account_id) AS accounts
        FROM engagement_dailycount d
        WHERE d.product_id = %(product)s AND d.account_id = ANY(%(accounts)b::bigint[])
        GROUP BY d.event_name_id) used
    JOIN engagement_eventname n ON n.id = used.id AND n.product_id = %(product)s
    ORDER BY n.name = ANY(%(weighted)s) DESC, used.accounts DESC, n.id
    LIMIT %(most)s
"""
# Users' counts are added up before the many powers are computed.
_SUMS: LiteralString = """
    SELECT number, column_, {sums}
    FROM (
        SELECT pair.number, pair.day - d.day AS age, sum(d.count)::float8 AS count,
            COALESCE(array_position(%(names)b::bigint[], d.event_name_id), 0) AS column_
        FROM unnest(%(accounts)b::bigint[], %(days)b::date[])
            WITH ORDINALITY pair(account_id, day, number)
        JOIN engagement_dailycount d ON d.product_id = %(product)s
            AND d.account_id = pair.account_id AND d.day <= pair.day
        JOIN engagement_user u ON u.id = d.user_id AND u.is_identified
            AND u.product_id = %(product)s
        WHERE d.event_name_id <> ALL(%(ignored)b::bigint[])
        GROUP BY 1, 2, 4) ages
    GROUP BY 1, 2
"""
_LAST_DAYS: LiteralString = "COALESCE(sum(count) FILTER (WHERE age < {}), 0)"
_BY_HALF_LIFE: LiteralString = "sum(count * power(2, GREATEST(-age / {}.0, -1000)))"


def load_counts(
    product_id: int,
    pairs: Sequence[tuple[int, date]],
    weighted: Sequence[str],
    windows: Sequence[Window],
) -> Counts:
    """The counts of the accounts at the ends of the days. *weighted* are the names that have a
    weight of their own: with more than MOST_NAMES, those that few accounts have do not count.

    Raises sql.StatementTimeout.
    """
    accounts = sorted({account for account, _ in pairs})
    parameters = {
        "product": product_id,
        "accounts": accounts[:: max(1, len(accounts) // NAMING_ACCOUNTS)],
        "weighted": list(weighted),
        "most": MOST_NAMES,
    }
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        names = sql.fetch(_FREQUENT, parameters)
    by_window = np.zeros((len(windows), len(pairs), len(names) + 1))
    own_ids = [pk for pk, _ in names]
    others = EventName.objects.filter(product=product_id, name__in=list(weighted))
    shared = {
        "product": product_id,
        "names": own_ids,
        "ignored": list(others.exclude(pk__in=own_ids).values_list("pk", flat=True)),
    }
    statement = _SUMS.format(sums=", ".join(_sum_of(window) for window in windows))
    has_data = np.zeros(len(pairs), bool)
    for start in range(0, len(pairs), PAIRS_PER_STATEMENT):
        chunk = pairs[start : start + PAIRS_PER_STATEMENT]
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            rows = sql.fetch(statement, shared | sql.arrays(chunk, "accounts", "days"))
        for number, column, *sums in rows:
            # Column 0 is of other names: the last one here.
            by_window[:, start + number - 1, column - 1] = sums
            has_data[start + number - 1] = True
    return Counts(
        [name for _, name in names],
        dict(zip(windows, by_window, strict=True)),
        has_data,
    )


def _sum_of(window: Window) -> LiteralString:
    template, days = (
        (_BY_HALF_LIFE, window.half_life_days)
        if window.half_life_days
        else (_LAST_DAYS, window.lookback_days)
    )
    # A number: nothing that people enter.
    return template.replace("{}", str(int(days)))
