"""Alarms with numbers of a test's choosing, as a night writes them."""

from datetime import date, timedelta
from typing import Any

from django.utils import timezone

from engagement.models import AccountEngagement, Alarm, AlarmNight, ScoreSet, Workspace
from tests.engagement.rows import TODAY

SINCE = TODAY - timedelta(days=20)
LEVEL = Workspace.FalseAlarms.ONE
FIGURES: dict[str, Any] = {
    "since": SINCE,
    "window_days": 14,
    "observed": 4,
    "expected": 18.0,
    "dispersion": 1.6,
    "p": 0.0004,
    "baseline_from": SINCE - timedelta(days=126),
    "baseline_to": SINCE - timedelta(days=15),
}
DETAILS: dict[str, dict[str, Any]] = {
    "feature": {"events": [{"id": 1, "name": "shared", "comparable": 412, "ended": 2}]},
    "leaving": {"users": [1, 2], "quiet": 2, "regular": 5, "usual_share": 0.14},
    "key_user": {"users": [1], "share": 0.6, "last_day": str(TODAY - timedelta(days=30))},
}


def figures(signal: str = "fall", **values: Any) -> Alarm:
    """An alarm that is stored nowhere."""
    level = 0 if signal in ("leaving", "key_user") else LEVEL
    common = {"signal": signal, "level": level, "details": DETAILS.get(signal, {})}
    return Alarm(**{**FIGURES, **common, **values})


def alarm(row: AccountEngagement, signal: str = "fall", **values: Any) -> Alarm:
    """An alarm of the row's account in the workspace of its set; open if it has no *outcome*."""
    workspace_id = ScoreSet.objects.values_list("workspace_id", flat=True).get(pk=row.score_set_id)
    if values.get("outcome"):
        values = {"ended_on": TODAY - timedelta(days=1), **values}
    own = {"product_id": row.product_id, "account_id": row.account_id}
    row_alarm = figures(signal, workspace_id=workspace_id, **own, **values)
    row_alarm.save(force_insert=True)
    return row_alarm


def night(workspace: Workspace, day: date, **values: Any) -> AlarmNight:
    numbers = {"user_days": 1, "decided_at": timezone.now(), **values}
    stored, _ = AlarmNight.objects.update_or_create(workspace=workspace, day=day, defaults=numbers)
    return stored
