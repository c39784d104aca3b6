"""The jobs that move stored rows, one of each kind for a product with requests."""

from core.database import pace
from core.jobs import kinds
from engagement.models import Product
from engagement.recording import moving, parting, reattribution

QUEUE = "moves"

MOVE_JOINED = "move what joined users did"
MOVE_PARTED = "move what came with parted ids"
REATTRIBUTE = "move events to other accounts"


def register() -> None:
    """Register them in this order: events get their accounts once all of a user's are there."""
    for room, name, label in (
        (moving, MOVE_JOINED, "Moves events and memberships to the user that an alias names."),
        (parting, MOVE_PARTED, "Moves events and memberships to the user of a parted id."),
        (reattribution, REATTRIBUTE, "Moves events to another account after a late membership."),
    ):
        kinds.register(
            name,
            label,
            queue=QUEUE,
            step=room.process_requests,
            keys=room.products_to_process,
            pause_share=pace.PAUSE_SHARE,
            title=Product.name_of,
        )
