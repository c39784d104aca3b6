"""Alarms in the database: what a night reads of those before it, and the rows that it writes."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from typing import Any, LiteralString

from core.database import sql
from engagement import changes
from engagement.alarms.levels import MEASURED_BY, NOTHING_DAYS, SETTLED_FOR
from engagement.models import Alarm, AlarmNight, ScoreSet
from engagement.scores.active_days import KEPT

ROWS_PER_STATEMENT = 2_000
# An account that settled is not compared with the time before for so long (``transitions``).
RESTING = timedelta(weeks=24)
# Alarms that ended, and the numbers of nights.
KEPT_NIGHTS = timedelta(weeks=104)


@dataclass(frozen=True)
class Levels:
    """Where the alarms of a night are stored: at their levels or, while a replay is under way that
    began with the day *replayed_from*, below 0."""

    replayed_from: date | None = None

    @property
    def is_replay(self) -> bool:
        return self.replayed_from is not None

    def stored(self, level: int) -> int:
        """The stored level of a level, and the other way round."""
        return -1 - level if self.is_replay else level


def copied_from(replayed_from: date) -> date:
    """A replay begins with the alarms from this day on."""
    return replayed_from - RESTING


# --- Reading --------------------------------------------------------------------------------

# The usual rate follows the data, as long as all days of the baseline are kept. In one value, as
# loading reads active days: half a million rows of a large product would be Python objects.
_READ: LiteralString = """
    SELECT string_agg(
        int8send(a.account_id) || int2send((a.signal = 'rise')::integer::smallint)
            || int2send((CASE WHEN a.level < 0 THEN -1 - a.level ELSE a.level END)::smallint)
            || int4send(a.since - '0001-01-01'::date + 1)
            || int2send((a.ended_on IS NULL)::integer::smallint)
            || int4send((a.baseline_to - a.baseline_from + 1) / 7)
            || float8send(COALESCE(
                s.users * 7.0::float8 / (a.baseline_to - a.baseline_from + 1), a.weekly_rate))
            || float8send(a.burstiness),
        '' ORDER BY a.account_id)
    FROM engagement_alarm a
    LEFT JOIN LATERAL (
        SELECT COALESCE(sum(d.users), 0) AS users FROM engagement_activeday d
        WHERE d.product_id = %(product)s AND d.score_set_id = %(score_set)s
          AND d.account_id = a.account_id AND d.day BETWEEN a.baseline_from AND a.baseline_to
    ) s ON a.ended_on IS NULL AND a.baseline_from >= %(kept_from)s
    WHERE a.product_id = %(product)s AND a.workspace_id = %(workspace)s
      AND a.signal IN ('fall', 'rise') AND (a.level < 0) = %(is_replay)s
      AND (a.ended_on IS NULL OR (a.outcome = 'settled' AND a.since > %(rested)s))
"""


def read(score_set: ScoreSet, day: date, levels: Levels) -> bytes:
    """The alarms that the night after *day* begins with, open or settled, in the order of their
    accounts, as ``deciding.STORED``."""
    assert score_set.active_days_until is not None, "Its active days are counted."
    parameters = {
        **_own(score_set),
        "score_set": score_set.pk,
        "is_replay": levels.is_replay,
        "rested": day - RESTING,
        "kept_from": score_set.active_days_until - KEPT,
    }
    ((packed,),) = sql.fetch(_READ, parameters)
    return packed or b""


# A replay has a copy of what was not long before it, and no other.
_CAME_TO_NOTHING: LiteralString = """
    SELECT CASE WHEN level < 0 THEN -1 - level ELSE level END AS own_level, count(*)
    FROM engagement_alarm
    WHERE product_id = %(product)s AND workspace_id = %(workspace)s AND signal = %(signal)s
      AND (level = ANY(%(levels)b::smallint[])
           OR (level = ANY(%(live_levels)b::smallint[]) AND since < %(copied_from)s::date))
      AND since BETWEEN %(first)s AND %(last)s
      AND outcome = 'recovered' AND ended_on <= since + %(within)s::integer
    GROUP BY own_level
"""


def came_to_nothing(
    score_set: ScoreSet, levels: Levels, signal: str, first: date, last: date
) -> dict[int, int]:
    """By level that measures kappa, the number of alarms that began on these days and recovered
    within 12 weeks."""
    measuring = sorted(set(MEASURED_BY))
    parameters = {
        **_own(score_set),
        "signal": str(signal),
        "levels": [levels.stored(level) for level in measuring],
        "live_levels": measuring,
        "copied_from": levels.replayed_from and copied_from(levels.replayed_from),
        **{"first": first, "last": last, "within": NOTHING_DAYS},
    }
    return dict(sql.fetch(_CAME_TO_NOTHING, parameters))


def no_longer_settled(score_set: ScoreSet, day: date) -> set[int]:
    """The accounts of which readers no longer see, from the end of *day* on, that they settled."""
    alarms = Alarm.objects.filter(
        product_id=score_set.product_id,
        workspace_id=score_set.workspace_id,
        outcome=Alarm.Outcome.SETTLED,
        since=day - SETTLED_FOR,
    )
    return set(alarms.values_list("account_id", flat=True))


# --- Writing --------------------------------------------------------------------------------

_KEY = {"account_id": "bigint", "signal": "text", "level": "smallint", "since": "date"}
_INSERTED = {
    **_KEY,
    **{"window_days": "smallint", "observed": "integer", "expected": "float8"},
    **{"dispersion": "float8", "p": "float8", "is_stopped": "boolean", "is_replayed": "boolean"},
    **{"baseline_from": "date", "baseline_to": "date", "weekly_rate": "float8"},
    **{"burstiness": "float8", "details": "jsonb"},
}
_UPDATED = {
    **_KEY,
    **{"outcome": "text", "ended_on": "date", "is_stopped": "boolean", "weekly_rate": "float8"},
    "latest": "jsonb",
}


def _unnest(columns: dict[str, str]) -> str:
    arrays = ", ".join(
        f"%({name})b::{'text' if kind == 'jsonb' else kind}[]" for name, kind in columns.items()
    )
    return f"unnest({arrays}) AS k({', '.join(columns)})"


def _cast(name: str, columns: dict[str, str]) -> str:
    return f"k.{name}::{columns[name]}"


_INSERT: Any = f"""
    INSERT INTO engagement_alarm (product_id, workspace_id, outcome, latest, {", ".join(_INSERTED)})
    SELECT %(product)s::bigint, %(workspace)s::bigint, '', '{{}}'::jsonb,
           {", ".join(_cast(name, _INSERTED) for name in _INSERTED)}
    FROM {_unnest(_INSERTED)}
"""
_UPDATE: Any = f"""
    UPDATE engagement_alarm a
    SET {", ".join(f"{name} = {_cast(name, _UPDATED)}" for name in _UPDATED if name not in _KEY)}
    FROM {_unnest(_UPDATED)}
    WHERE a.product_id = %(product)s AND a.workspace_id = %(workspace)s
      AND {" AND ".join(f"a.{name} = k.{name}" for name in _KEY)}
"""


def insert(score_set: ScoreSet, rows: Iterable[dict[str, Any]]) -> None:
    """Write alarms that begin."""
    for arrays in _arrays(rows, _INSERTED):
        sql.execute(_INSERT, {**_own(score_set), **arrays})


def update(score_set: ScoreSet, rows: Iterable[dict[str, Any]]) -> None:
    """Write what became of alarms that were open."""
    for arrays in _arrays(rows, _UPDATED):
        sql.execute(_UPDATE, {**_own(score_set), **arrays})


def delete_old(score_set: ScoreSet, day: date) -> None:
    """Delete the alarms that ended, and the nights, long before *day*."""
    own = Alarm.objects.filter(**_own(score_set))
    own.filter(ended_on__lt=day - KEPT_NIGHTS).delete()
    nights = AlarmNight.objects.filter(workspace=score_set.workspace_id)
    nights.filter(day__lt=day - KEPT_NIGHTS).delete()


def tell(score_set: ScoreSet, account_ids: set[int]) -> None:
    """Let readers know that these accounts look different. The caller holds the product's scoring
    lock."""
    changes.stamp(score_set.product_id, {"account": account_ids})
    ScoreSet.objects.filter(pk=score_set.pk).update(cached_counts_stale=True, watches_stale=True)


def _arrays(
    rows: Iterable[dict[str, Any]], columns: dict[str, str]
) -> Iterator[dict[str, list[Any]]]:
    remaining = iter(rows)
    while part := list(islice(remaining, ROWS_PER_STATEMENT)):
        yield {
            name: [json.dumps(row[name]) if kind == "jsonb" else row[name] for row in part]
            for name, kind in columns.items()
        }


def _own(score_set: ScoreSet) -> dict[str, Any]:
    return {"product": score_set.product_id, "workspace": score_set.workspace_id}
