"""Subscribes a receiver inside the service, and prints the signing secret as JSON.

``python -m proofs.subscribing PRODUCT URL``
"""

import json
import sys

import django

django.setup()

# The apps must be loaded first.
from django.utils import timezone  # noqa: E402

from engagement.models import Segment, Workspace  # noqa: E402
from notifications.delivery import signing  # noqa: E402
from notifications.models import Destination, Subscription  # noqa: E402
from notifications.watching.watches import assign_watch  # noqa: E402


def subscribe(product: int, url: str) -> str:
    """Tell the URL who enters and leaves the segment *Paying*. Returns the signing secret."""
    workspace = Workspace.objects.get(product=product)
    paying = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
    segment = Segment.objects.create(
        workspace=workspace, scope="account", name="Paying", conditions=[paying]
    )
    destination = Destination.objects.create(
        product_id=product,
        kind=Destination.Kind.WEBHOOK,
        name="Receiver",
        address=url,
        signing_secrets=signing.generate_secret(),
        state=Destination.State.ACTIVE,
        verified_at=timezone.now(),
    )
    for trigger in ("segment_entered", "segment_left"):
        subscription = Subscription.objects.create(
            product_id=product,
            workspace=workspace,
            segment=segment,
            destination=destination,
            trigger=trigger,
            quiet_hours=0,
        )
        assign_watch(subscription)
    return destination.signing_secrets


if __name__ == "__main__":
    print(json.dumps({"secret": subscribe(int(sys.argv[1]), sys.argv[2])}))
