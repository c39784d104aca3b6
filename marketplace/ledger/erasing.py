"""Deletes the ledger of a forgotten account's licenses."""

from datetime import datetime

from django.db.models import Q

from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from marketplace.ledger.accounts import note_changed_events
from marketplace.ledger.inputs import MOVES
from marketplace.ledger.relations import SITE
from marketplace.models import (
    Feedback,
    Ledger,
    LedgerLicense,
    LicenseAlias,
    LicenseEvent,
    MetricEvent,
    Observation,
    Transaction,
)
from outcomes.forecasts import storage as forecasts
from outcomes.models import LicenseOutcome


def register_eraser() -> None:
    forgetting.register_eraser(erase_ledger)


def erase_ledger(subject: SubjectRef, now: datetime) -> None:
    """Delete the ledger of each license that was ever on the account's site. One that moved
    elsewhere gets a new ledger from its present state."""
    if subject.scope != SubjectScope.ACCOUNT:
        return
    of_product = Q(product=subject.product_id)
    MetricEvent.objects.filter(of_product, cloud_id=subject.external_id).delete()
    own = LedgerLicense.objects.filter(of_product, links__contains=[SITE + subject.external_id])
    rows = list(own.values_list("license", "links"))
    if not rows:
        return
    licenses = [license for license, _ in rows]
    aliases = LicenseAlias.objects.filter(of_product, license__in=licenses)
    names = list(aliases.values_list("name", flat=True))
    links = {link for _, links in rows for link in links}
    linked = LedgerLicense.objects.filter(of_product, links__overlap=sorted(links))
    for report in (Transaction, Feedback, MetricEvent):
        report.objects.filter(of_product, names__overlap=names).delete()
    # What linked licenses say of them goes, too, and is computed again without them.
    others = list(linked.exclude(license__in=licenses).values_list("license", flat=True))
    about_both = LicenseEvent.objects.filter(
        of_product, license__in=others, details__license__in=licenses
    )
    note_changed_events(subject.product_id, about_both.values_list("cloud_id", flat=True))
    about_both.delete()
    for row in linked.filter(facts__has_key=MOVES).exclude(license__in=licenses):
        moves = {name: is_move for name, is_move in row.facts[MOVES].items() if name not in names}
        row.facts = {**row.facts, MOVES: moves}
        row.save(update_fields=["facts"])
    LedgerLicense.objects.filter(of_product, license__in=others, stale=0).update(
        stale=LedgerLicense.Stale.LINKED
    )
    # Of licenses that were joined with them, withdrawn events are left.
    for model in (Observation, LicenseEvent, LicenseOutcome, LicenseAlias, LedgerLicense):
        model.objects.filter(of_product, license__in={*licenses, *names}).delete()
    forecasts.rename_licenses(subject.product_id, {*licenses, *names}, "")
    Ledger.objects.filter(of_product).update(needs_fill=True)
