"""The job of each workspace after a day is over."""

from datetime import timedelta

from core.jobs import kinds
from engagement.models import Workspace
from engagement.nights import schedule

DECIDE_ALARMS = "decide alarms"
# That of scoring: a night reads what scoring noted, and both hold the same lock.
QUEUE = "scoring"


def register() -> None:
    """Register the kind of job."""
    kinds.register(
        DECIDE_ALARMS,
        "Counts the active users of a day that is over, and decides which accounts have changed.",
        queue=QUEUE,
        step=schedule.take_step,
        keys=schedule.due_workspaces,
        # Longer than what a night of a million accounts takes.
        lease=timedelta(minutes=10),
        title=_name_of,
    )


def _name_of(workspace_id: int) -> str:
    workspace = Workspace.objects.select_related("product").filter(pk=workspace_id).first()
    return str(workspace or workspace_id)
