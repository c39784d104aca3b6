"""The jobs that follow the end of days: nights of workspaces, and weekly looks at score sets."""

from datetime import timedelta

from core.jobs import kinds
from engagement.models import ScoreSet, Workspace
from engagement.nights import schedule, weekly

DECIDE_ALARMS = "decide alarms"
CHANGED_HABITS = "look for changed habits"
# That of scoring: a night reads what scoring noted, and both hold the same lock.
QUEUE = "scoring"


def register() -> None:
    """Register the kinds of jobs."""
    kinds.register(
        DECIDE_ALARMS,
        "Counts the active users of a day that is over, and decides which accounts have changed.",
        queue=QUEUE,
        step=schedule.take_step,
        keys=schedule.due_workspaces,
        # Longer than what a night of a million accounts takes.
        lease=timedelta(minutes=10),
        title=Workspace.title_of,
    )
    kinds.register(
        CHANGED_HABITS,
        "Looks once a week for events that accounts no longer use, and users who no longer come.",
        queue=QUEUE,
        step=weekly.look,
        keys=schedule.current_sets,
        title=ScoreSet.name_of,
    )
