"""The jobs that move stored rows, one of each kind for a product with requests."""

from functools import partial

from core.database import pace
from core.jobs import kinds
from engagement.models import Product
from engagement.recording import moves, moving, parting, reattribution

QUEUE = "moves"

MOVE_JOINED = "move what joined users did"
MOVE_PARTED = "move what came with parted ids"
REATTRIBUTE = "move events to other accounts"


def register() -> None:
    """Register them in this order: events get their accounts once all of a user's are there."""
    for room, table, name, label in (
        (moving, "joinrequest", MOVE_JOINED, "Moves events to the user that an alias names."),
        (parting, "partrequest", MOVE_PARTED, "Moves events to the user of a parted id."),
        (reattribution, "reattributionrequest", REATTRIBUTE, "Moves events of late memberships."),
    ):
        kinds.register(
            name,
            label,
            queue=QUEUE,
            step=partial(moves.take_step, room.NEXT, room.process),
            keys=partial(moves.products_with, f"engagement_{table}"),
            pause_share=pace.PAUSE_SHARE,
            title=Product.name_of,
        )
