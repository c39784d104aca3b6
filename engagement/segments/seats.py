"""Changes whom the seats of a product's licenses are for, which insights and metrics depend on."""

from django.db import transaction

from engagement.license_traits import SEATS_TRAIT
from engagement.models import Account, Product, ScoreSet, Seats, Workspace
from engagement.scores import rescore_queue
from engagement.segments import counts


def choose_seats(product: Product, licensed_for: Seats, *, has_site_users: bool) -> None:
    """Store the product's settings. Readers of changes learn of its accounts with seats, and no
    subscriber of notifications learns what only the settings changed."""
    with transaction.atomic():
        # A set that is requested meanwhile has the settings of before or after.
        workspaces = Workspace.objects.select_for_update(no_key=True).filter(product=product)
        list(workspaces.order_by("pk").values_list("pk", flat=True))
        product.licensed_for, product.has_site_users = licensed_for, has_site_users
        product.save(update_fields=["licensed_for", "has_site_users"])
        changed = ScoreSet.objects.filter(product=product).exclude(seats=product.seats)
        changed_ids = list(changed.values_list("pk", flat=True))
        ScoreSet.objects.filter(pk__in=changed_ids).update(seats=product.seats)
        counts.invalidate(changed_ids)
        accounts = Account.objects.filter(product=product, traits__has_key=SEATS_TRAIT)
        ids = accounts.order_by("pk").values_list("pk", flat=True) if changed_ids else ()
        rescore_queue.enqueue([rescore_queue.rescore_account(product.pk, id) for id in ids])
