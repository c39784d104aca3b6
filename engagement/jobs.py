"""The background jobs of the domain. Workers of the scoring queue run them, after what waits to be
scored."""

from datetime import timedelta

from core.jobs import kinds
from core.jobs.backoff import Backoff
from engagement.rescoring import sets, stamping
from engagement.rescoring.rescore import QUEUE
from engagement.search import entries

BUILD_SETS = "build scores"
STAMP_CHANGES = "stamp changes"
INDEX_BACKLOG = "index for the search"
DELETE_RETIRED = "delete retired score sets"


# People wait for the scores of what they edited.
BUILD_BACKOFF = Backoff(first=timedelta(seconds=5), factor=2, longest=timedelta(minutes=1))


def register() -> None:
    """Register them in the order in which one reads what another computes."""
    kinds.register(
        BUILD_SETS,
        "Computes all scores of a new or edited workspace. Until then people see the old ones.",
        queue=QUEUE,
        step=sets.build,
        keys=sets.sets_to_build,
        is_urgent=True,
        backoff=BUILD_BACKOFF,
    )
    kinds.register(
        STAMP_CHANGES,
        "Notes for readers of changed_since whose segments changed without a new score.",
        queue=QUEUE,
        step=stamping.stamp_pending,
    )
    kinds.register(
        INDEX_BACKLOG,
        "Lets the search find users and accounts that are older than it.",
        queue=QUEUE,
        step=entries.work_off_backlog,
    )
    kinds.register(
        DELETE_RETIRED,
        "Deletes scores that newer ones have replaced.",
        queue=QUEUE,
        step=sets.delete_retired,
    )
