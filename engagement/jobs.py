"""The background jobs of the domain. Workers of the scoring queue run them, after what waits to be
scored."""

from core.jobs import kinds
from engagement.rescoring import kinds as scoring
from engagement.rescoring import sets, stamping
from engagement.rescoring.rescore import QUEUE
from engagement.search import entries

STAMP_CHANGES = "stamp changes"
INDEX_BACKLOG = "index for the search"
DELETE_RETIRED = "delete retired score sets"


def register() -> None:

    scoring.register()
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
