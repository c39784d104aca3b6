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
from engagement.rules.steps import Step, parse_steps
from engagement.rules.trait_filters import trait_filter
from engagement.scopes import SubjectKind, get_kind
from engagement.scores.raw import join_counted_users

# What was done before somebody was first seen counts on that day: a message that names an account
# may come later than the first events of its users. Counts are summed for each subject, so that an
# index finds them: for a join, the planner would read all counts of the product.
ROWS: LiteralString = f"""
    WITH subjects AS MATERIALIZED (
        SELECT s.id, (s.first_seen_at AT TIME ZONE 'UTC')::date AS first_day
        FROM {{table}} s
        JOIN {{engagement_table}} e ON e.product_id = %(product)s
            AND e.score_set_id = {sql.SCORE_SET} AND e.{{id_column}} = s.id
        WHERE s.product_id = %(product)s AND s.id = ANY(%(ids)b::bigint[])),
    steps AS MATERIALIZED (
        SELECT * FROM unnest(%(numbers)b::integer[], %(events)b::bigint[], %(least)b::bigint[],
                             %(by_days)b::boolean[], %(within)b::integer[])
            AS k(step, event_name_id, least, by_days, within)),
    counted AS (
        SELECT s.id, d.event_name_id, d.day - s.first_day AS day, d.count
        FROM subjects s
        CROSS JOIN LATERAL (
            SELECT d.event_name_id, d.day, sum(d.count) AS count
            FROM engagement_dailycount d {{join_users}}
            WHERE d.product_id = %(product)s AND d.{{id_column}} = s.id
              AND d.day < s.first_day + %(longest)s::integer
              AND d.event_name_id = ANY(%(events)b::bigint[])
            GROUP BY d.event_name_id, d.day) d),
    daily AS (
        SELECT c.id, c.day, c.count, k.step, k.least, k.by_days
        FROM counted c JOIN steps k ON k.event_name_id = c.event_name_id AND c.day < k.within),
    did AS (
        SELECT t.id, t.step, GREATEST(0, min(t.day)) AS day
        FROM (
            SELECT id, step, least, day,
                   CASE WHEN by_days THEN row_number() OVER w ELSE sum(count) OVER w END AS number
            FROM daily WINDOW w AS (PARTITION BY id, step ORDER BY day)) t
        WHERE t.number >= t.least
        GROUP BY t.id, t.step
        UNION ALL
        SELECT id, step, 0
        FROM unnest(%(trait_ids)b::bigint[], %(trait_steps)b::integer[]) AS k(id, step)),
    rows AS (
        SELECT s.id, s.first_day, array_agg(r.day::smallint ORDER BY k.step) AS days
        FROM subjects s
        CROSS JOIN generate_series(1, %(count)s::integer) AS k(step)
        LEFT JOIN did r ON r.id = s.id AND r.step = k.step
        GROUP BY s.id, s.first_day)
    SELECT id, first_day, days, reached,
           first_day + (%(withins)b::integer[])[reached + 1] AS late_on
    FROM (
        SELECT *, COALESCE(array_position(days, NULL) - 1, %(count)s::integer)::smallint AS reached
        FROM rows) r
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
    """Write the rows of these subjects, and delete those of subjects that the set does not have.
    Returns how many rows changed."""
    kind, steps = get_kind(activation.scope), parse_steps(activation.steps)
    parameters = {**row_parameters(score_set, kind, steps, ids), "activation": activation.pk}
    parts = row_parts(score_set, kind)
    changed = sql.execute(_WRITE.format(**parts), parameters)
    return changed + sql.execute(_DELETE.format(**parts), parameters)


def row_parts(score_set: ScoreSet, kind: SubjectKind) -> dict[str, LiteralString]:
    """The parts of ``ROWS``."""
    return {
        "table": kind.table,
        "engagement_table": kind.engagement_table,
        "id_column": kind.id_column,
        "join_users": join_counted_users(score_set, kind),
    }


def row_parameters(
    score_set: ScoreSet, kind: SubjectKind, steps: Sequence[Step], ids: Sequence[int]
) -> dict[str, Any]:
    """The parameters of ``ROWS``."""
    # Numbered from 1 on, as the entries of an array are.
    numbered = list(enumerate(steps, 1))
    names = [step.of for step in steps if step.kind == "event"]
    events = EventName.objects.filter(product=score_set.product_id, name__in=names)
    event_ids = dict(events.values_list("name", "pk"))
    by_event = [
        (number, event_ids[step.of], step.at_least, step.unit == "days", step.within_days)
        for number, step in numbered
        if step.of in event_ids and step.kind == "event"
    ]
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
        **sql.arrays(by_event, "numbers", "events", "least", "by_days", "within"),
        **sql.arrays(traits, "trait_ids", "trait_steps"),
        "longest": max(step.within_days for step in steps),
        "withins": [step.within_days for step in steps],
        "count": len(steps),
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
