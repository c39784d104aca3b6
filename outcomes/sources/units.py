"""Even samples of units: pairs of an account of a score set and a day.

Each unit has a place in [0, 1) by a hash, and those below a share are the sample. The places of an
account's days are equally far apart, so one hash an account and few rows suffice, however many
accounts there are. A day keeps its place as long as the list of days has its length.
"""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, LiteralString

from core.database import sql
from engagement.models import ScoreSet

# Units that are looked up at most: about a second on a large product.
MAX_CANDIDATES = 100_000

_COUNT: LiteralString = f"""
    SELECT count(*) FROM engagement_accountengagement
    WHERE product_id = %(product)s AND score_set_id = {sql.SCORE_SET}
"""
# The beginning of a statement: the units as "account_id", "place", "number" (of the day in the
# list, from 1 on), and "day".
UNITS: LiteralString = f"""
    WITH hashed AS (
        SELECT account_id, %(length)s * ((hashint8extended(account_id, 0) & 281474976710655)
                                         / 281474976710656::float8) AS turn
        FROM engagement_accountengagement
        WHERE product_id = %(product)s AND score_set_id = {sql.SCORE_SET}),
    numbered AS (
        SELECT account_id, (turn - floor(turn) + step) / %(length)s AS place,
               1 + (floor(turn)::int + step) %% %(length)s AS number
        FROM hashed CROSS JOIN generate_series(0, floor(%(share)s * %(length)s)::int) AS step
        WHERE step < %(length)s AND (turn - floor(turn) + step) / %(length)s < %(share)s),
    units AS MATERIALIZED (
        SELECT numbered.*, (%(days)b::date[])[number] AS day FROM numbered)
"""


def in_places(days: Sequence[date], months: int) -> list[date]:
    """The days, which are this many months apart, in the order of their places."""
    return sorted(days, key=lambda day: (12 * day.year + day.month - 1) // months % len(days))


def sample(
    score_set: ScoreSet,
    days: Sequence[date],
    limit: int,
    fetch: Callable[[dict[str, Any]], list[sql.Row]],
) -> tuple[list[sql.Row], float]:
    """The rows that *fetch* returns for a share of the units, and that share: as small as leaves
    *limit* of them. *fetch* gets the parameters of a statement that begins with ``UNITS``."""
    own: dict[str, Any] = {"product": score_set.product_id, "score_set": score_set.pk}
    ((accounts,),) = sql.fetch(_COUNT, own)
    units = max(1, accounts * len(days))
    largest = min(1.0, MAX_CANDIDATES / units)
    share = largest if largest == 1.0 else min(largest, 4 * limit / units)
    own |= {"days": list(days), "length": len(days), "limit": limit}
    rows = fetch({**own, "share": share})
    if len(rows) < limit and share < largest:
        share = min(largest, share * 1.2 * limit / max(1, len(rows)))
        rows = fetch({**own, "share": share})
    return rows, share
