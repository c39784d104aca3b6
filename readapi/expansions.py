"""The records of a page of users or accounts, with what was expanded."""

from collections.abc import Mapping, Sequence
from typing import Any

from access.work import accounts, alarms
from engagement.activity import reading
from engagement.license_traits import SEATS_TRAIT
from engagement.metric_names import Scope
from engagement.models import Workspace
from engagement.scopes import get_kind
from engagement.scores import history, metrics
from engagement.scores.history import AllTimeTotals
from engagement.scores.metrics import AccountMetrics, Metrics
from engagement.segments.chances import chances_by_account
from readapi import serializers
from readapi.links import LinkBuilder


def records(
    scope: Scope,
    workspace: Workspace,
    rows: Sequence[Any],
    links: LinkBuilder,
    expansions: Sequence[str],
) -> list[Mapping[str, object]]:
    """The records of *rows*, which ``queries.expand`` prepared. One statement for all metrics."""
    build: Any = serializers.account_record if scope == "account" else serializers.user_record
    of_accounts: dict[int, dict[str, Any]] = {}
    if scope == "account" and rows:
        states = reading.activities(serializers.score_set(workspace), rows)
        works = accounts.work_of(workspace.product_id, states)
        of_accounts = {id: {"activity": state, "work": works[id]} for id, state in states.items()}
    if "chances" in expansions and rows:
        ids = [row.account_id for row in rows]
        for id, own in chances_by_account(serializers.score_set(workspace), ids).items():
            of_accounts[id]["chances"] = serializers.chances(own)
    if "closed_alarms" in expansions and rows:
        score_set, ids = serializers.score_set(workspace), list(of_accounts)
        closed = alarms.results_by_account(workspace.product, score_set, ids)
        for id in ids:
            of_accounts[id]["closed_alarms"] = list(
                map(serializers.closed_alarm, closed.get(id, ()))
            )
    all_time = _all_time(scope, workspace, rows) if "metrics" in expansions else None
    return [
        build(
            row,
            workspace,
            links,
            **of_accounts.get(_id(scope, row), {}),
            metrics=_metrics(scope, workspace, row, all_time[_id(scope, row)])
            if all_time
            else None,
            traits=row.expanded_traits if "traits" in expansions else None,
        )
        for row in rows
    ]


def _all_time(scope: Scope, workspace: Workspace, rows: Sequence[Any]) -> dict[int, AllTimeTotals]:
    if not rows:
        return {}
    ids = [_id(scope, row) for row in rows]
    return history.all_time_totals_of(serializers.score_set(workspace), scope, ids)


def _id(scope: Scope, row: Any) -> int:
    return get_kind(scope).subject_id(row)


def _metrics(
    scope: Scope, workspace: Workspace, row: Any, all_time: AllTimeTotals
) -> Metrics | AccountMetrics:
    score_set = serializers.score_set(workspace)
    if scope == "user":
        return metrics.compute_user_metrics(row, score_set, all_time)
    return metrics.compute_account_metrics(row, score_set, all_time, {SEATS_TRAIT: row.seats})
