"""Computes which steps of its workspace each user and each account has done (``StepsDone``).

It is a function of what is stored: when somebody was first seen, the daily counts, and the traits.
Scoring computes it again for each subject that it scores, so late events, joined and parted users,
moves between accounts, and forgetting need nothing of their own here. The caller holds the
product's scoring lock.
"""

from collections.abc import Collection, Sequence
from typing import Any, LiteralString

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import Activation, EventName, ScoreSet, StepsDone
from engagement.rules.steps import MAX_AT_LEAST, Step, parse_steps
from engagement.rules.trait_filters import trait_filter
from engagement.scopes import ACCOUNTS, SubjectKind, get_kind
from engagement.scores.raw import counted_users

# What was done before somebody was first seen counts on that day: a message that names an account
# may come later than the first events of its users. Counts are looked up for each subject, so that
# an index finds them: for a join, the planner would read all counts of the product. All steps come
# from one pass over them: "totals" has how much was done until each day, and a step takes the first
# day that is enough. A step of a trait is an event that its subjects did on the first day.
ROWS: LiteralString = f"""
    WITH subjects AS MATERIALIZED (
        SELECT s.id, (s.first_seen_at AT TIME ZONE 'UTC')::date AS first_day
        FROM {{table}} s
        JOIN {{engagement_table}} e ON e.product_id = %(product)s
            AND e.score_set_id = {sql.SCORE_SET} AND e.{{id_column}} = s.id
        WHERE s.product_id = %(product)s AND s.id = ANY(%(ids)b::bigint[])),
    {{members}}
    counted AS (
        SELECT s.id, d.event_name_id, d.day - s.first_day AS day,
               LEAST(sum(d.count), {MAX_AT_LEAST})::integer AS count
        FROM subjects s
        CROSS JOIN LATERAL (
            SELECT d.event_name_id, d.day, d.count
            FROM engagement_dailycount d
            WHERE d.product_id = %(product)s AND d.{{id_column}} = s.id
              AND d.day < s.first_day + %(longest)s::integer
              AND d.event_name_id = ANY(%(events)b::bigint[]) {{of_users}}
            OFFSET 0) d
        GROUP BY s.id, d.event_name_id, d.day - s.first_day),
    totals AS (
        SELECT id, event_name_id, GREATEST(0, day) AS day,
               sum(count) OVER w AS times, row_number() OVER w AS days
        FROM counted
        WINDOW w AS (PARTITION BY id, event_name_id ORDER BY day ROWS UNBOUNDED PRECEDING)
        UNION ALL
        SELECT id, -step, 0, 1, 1
        FROM unnest(%(trait_ids)b::bigint[], %(trait_steps)b::bigint[]) AS k(id, step)),
    rows AS (
        SELECT s.id, s.first_day, ARRAY[{{days}}]::smallint[] AS days
        FROM subjects s LEFT JOIN totals t ON t.id = s.id
        GROUP BY s.id, s.first_day)
    SELECT id, first_day, days, reached,
           first_day + (%(within)b::integer[])[reached + 1] AS late_on
    FROM (
        SELECT *, COALESCE(array_position(days, NULL) - 1, cardinality(days))::smallint AS reached
        FROM rows) r
"""
_DAY: LiteralString = """
    min(t.day) FILTER (
        WHERE t.event_name_id = (%(of)b::bigint[])[{step}]
          AND t.day < (%(within)b::integer[])[{step}]
          AND CASE WHEN (%(by_days)b::boolean[])[{step}] THEN t.days ELSE t.times END
              >= (%(least)b::bigint[])[{step}])
"""
_NUMBERS: tuple[LiteralString, ...] = ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
# Most counts are of users who are members. The others are looked up one by one, and so is who is
# beyond the largest hash table.
_MEMBERS: LiteralString = """
    members AS MATERIALIZED (
        {counted_users} AND u.account_id = ANY(%(ids)b::bigint[]) LIMIT 50000),
"""
_OF_USERS: LiteralString = """
    AND (d.user_id IN (SELECT id FROM members) OR EXISTS ({counted_users} AND u.id = d.user_id))
"""
_WRITE: LiteralString = f"""
    INSERT INTO engagement_stepsdone AS p
        (product_id, activation_id, subject_id, first_day, days, reached, late_on)
    SELECT %(product)s::bigint, %(activation)s::bigint,
           n.id, n.first_day, n.days, n.reached, n.late_on
    FROM ({ROWS}) n
    ON CONFLICT (product_id, activation_id, subject_id) DO UPDATE
    SET first_day = EXCLUDED.first_day, days = EXCLUDED.days, reached = EXCLUDED.reached,
        late_on = EXCLUDED.late_on
    WHERE (p.first_day, p.days) IS DISTINCT FROM (EXCLUDED.first_day, EXCLUDED.days)
"""
_DELETE: LiteralString = f"""
    DELETE FROM engagement_stepsdone p
    WHERE p.product_id = %(product)s AND p.activation_id = %(activation)s
      AND p.subject_id = ANY(%(ids)b::bigint[])
      AND NOT EXISTS (
        SELECT FROM {{engagement_table}} e
        WHERE e.product_id = %(product)s AND e.score_set_id = {sql.SCORE_SET}
          AND e.{{id_column}} = p.subject_id)
"""


def write_rows(activation: Activation, score_set: ScoreSet, ids: Sequence[int]) -> int:
    """Write the rows of these subjects as far as the set has them. Returns how many changed."""
    kind, steps = get_kind(activation.scope), parse_steps(activation.steps)
    parameters = {**row_parameters(score_set, kind, steps, ids), "activation": activation.pk}
    return sql.execute(_WRITE.format(**row_parts(score_set, kind, steps)), parameters)


def refresh_rows(activation: Activation, score_set: ScoreSet, ids: Sequence[int]) -> int:
    """Write the rows of these subjects, and delete those of subjects that the set does not have.
    Returns how many rows changed."""
    kind = get_kind(activation.scope)
    parameters = {
        "product": activation.product_id,
        "activation": activation.pk,
        "score_set": score_set.pk,
        "ids": list(ids),
    }
    parts = {"engagement_table": kind.engagement_table, "id_column": kind.id_column}
    changed = write_rows(activation, score_set, ids)
    return changed + sql.execute(_DELETE.format(**parts), parameters)


def row_parts(
    score_set: ScoreSet, kind: SubjectKind, steps: Sequence[Step]
) -> dict[str, LiteralString]:
    """The parts of ``ROWS``."""
    users = counted_users(score_set) if kind is ACCOUNTS else None
    return {
        "table": kind.table,
        "engagement_table": kind.engagement_table,
        "id_column": kind.id_column,
        "members": _MEMBERS.format(counted_users=users) if users else "",
        "of_users": _OF_USERS.format(counted_users=users) if users else "",
        "days": ", ".join([_DAY.format(step=number) for number in _NUMBERS[: len(steps)]]),
    }


def row_parameters(
    score_set: ScoreSet, kind: SubjectKind, steps: Sequence[Step], ids: Sequence[int]
) -> dict[str, Any]:
    """The parameters of ``ROWS``."""
    names = [step.of for step in steps if step.kind == "event"]
    events = EventName.objects.filter(product=score_set.product_id, name__in=names)
    event_ids = dict(events.values_list("name", "pk"))
    # Numbered from 1 on, as the entries of an array are.
    numbered = list(enumerate(steps, 1))
    traits = [
        (id, number)
        for number, step in numbered
        if step.kind == "trait"
        for id in _with_trait(score_set.product_id, kind, step, ids)
    ]
    return {
        "product": score_set.product_id,
        "score_set": score_set.pk,
        "ids": list(ids),
        "events": list(event_ids.values()),
        "of": [
            -number if step.kind == "trait" else event_ids.get(step.of, 0)
            for number, step in numbered
        ],
        "least": [step.at_least if step.kind == "event" else 1 for step in steps],
        "by_days": [step.unit == "days" for step in steps],
        "within": [step.within_days for step in steps],
        **sql.arrays(traits, "trait_ids", "trait_steps"),
        "longest": max(step.within_days for step in steps),
    }


def _with_trait(
    product_id: int, kind: SubjectKind, step: Step, ids: Sequence[int]
) -> Collection[int]:
    rows = kind.model._default_manager.filter(product_id=product_id, pk__in=list(ids))
    return list(rows.filter(trait_filter(step.trait, "traits")).values_list("pk", flat=True))


def current(workspace_id: int, scope: Scope) -> Activation | None:
    """The steps that readers see, if the workspace has any."""
    rows = Activation.objects.filter(workspace=workspace_id, state=Activation.State.CURRENT)
    return rows.filter(scope=scope).first()


def forget(product_id: int, scope: Scope, subject_id: int) -> None:
    """Delete what the user or account has done."""
    own = Activation.objects.filter(product=product_id, scope=scope).values_list("pk", flat=True)
    rows = StepsDone.objects.filter(product=product_id, activation__in=list(own))
    rows.filter(subject_id=subject_id).delete()
