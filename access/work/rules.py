"""Chooses owners by the rules of a product: every night, and after somebody changed the rules."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime

import msgspec
from django.db.models import Max
from django.db.models.fields.json import KeyTextTransform

from access.work import owners, settings
from access.work.settings import OwnerRule
from core.database import locks, nodes
from core.jobs import kinds
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement.models import Account, AccountWork, Product, ScoreSet, Segment
from engagement.rules.rules import InvalidRule
from engagement.segments import members
from engagement.traits import canonical_name

JOB = "choose owners"
# That of what nobody waits for (``outcomes.reading``): scoring looks for its own work all the time.
QUEUE = "backtests"
# The locks of scoring are held for as many accounts at once.
ACCOUNTS_PER_STEP = 5_000


def register() -> None:
    kinds.register(
        JOB,
        "Chooses the owners of accounts by the rules of a product, every night and after a change "
        "of the rules.",
        queue=QUEUE,
        step=choose_some,
        keys=due_products,
        title=lambda pk: str(Product.objects.filter(pk=pk).first() or pk),
    )


def due_products() -> list[int]:
    """The keys of the job: products whose rules changed, or that have rules and a new day."""
    products = Product.objects.filter(deletion_requested_at=None).exclude(work={})
    return [
        product.pk
        for product in nodes.reachable(products, "pk").order_by("pk")
        if _is_due(settings.load(product), _day_of(product.pk))
    ]


def _is_due(own: settings.WorkSettings, day: date | None) -> bool:
    return own.is_changed or (bool(own.rules) and day is not None and own.chosen_for != day)


def _day_of(product_id: int) -> date | None:
    """The last day that the product's workspaces have scores of."""
    current = ScoreSet.objects.filter(product=product_id, state=ScoreSet.State.CURRENT)
    day: date | None = current.aggregate(day=Max("scored_day"))["day"]
    return day


def choose_some(job: Job, now: datetime) -> Outcome:
    """Choose the owners of the next accounts."""
    product = Product.objects.filter(pk=job.key, deletion_requested_at=None).first()
    if product is None:
        return Done()
    if product.pk in nodes.missing_products():
        return Blocked()
    locks.lock_scoring(product.pk)
    rows = Account.objects.filter(product=product.pk, is_identified=True, pk__gt=job.cursor or 0)
    ids = list(rows.order_by("pk").values_list("pk", flat=True)[:ACCOUNTS_PER_STEP])
    own = settings.load(product)
    if ids:
        _choose(product, own.rules, ids)
        return More(str(ids[-1]))
    ended = msgspec.structs.replace(own, is_changed=False, chosen_for=_day_of(product.pk))
    # A person who changed the rules meanwhile has marked them, and they are applied again.
    unchanged = Product.objects.filter(pk=product.pk, work=product.work)
    unchanged.update(work=settings.to_json(ended))
    return Done()


def _choose(product: Product, rules: Iterable[OwnerRule], ids: list[int]) -> None:
    """Give these accounts the owners that the rules say, except where a person chose one."""
    rows = {
        row.account_id: row
        for row in AccountWork.objects.filter(product=product.pk, account__in=ids)
    }
    free = [id for id in ids if id not in rows or not rows[id].is_by_hand]
    by_account = _owners(product, rules, free)
    moved = [id for id in free if by_account.get(id, "") != (rows[id].owner if id in rows else "")]
    AccountWork.objects.bulk_create(
        (
            AccountWork(product_id=product.pk, account_id=id, owner=by_account.get(id, ""))
            for id in moved
        ),
        update_conflicts=True,
        unique_fields=["product", "account"],
        update_fields=["owner"],
    )
    owners.tell(product.pk, moved)


def _owners(product: Product, rules: Iterable[OwnerRule], ids: list[int]) -> dict[int, str]:
    """The owners that the rules say, by account: the first rule that names one counts."""
    by_account: dict[int, str] = {}
    logins = list(owners.candidates(product.pk))
    names = {login.username for login in logins}
    by_text = {login.email.lower(): login.username for login in logins if login.email}
    by_text |= {name.lower(): name for name in names}
    for rule in rules:
        rest = [id for id in ids if id not in by_account]
        if rule.trait:
            by_account |= _by_trait(product.pk, rule.trait, rest, by_text)
        elif rule.owner in names:
            by_account |= dict.fromkeys(_members(product.pk, rule.segment, rest), rule.owner)
    return by_account


def _by_trait(
    product_id: int, trait: str, ids: list[int], by_text: Mapping[str, str]
) -> dict[int, str]:
    accounts = Account.objects.filter(product=product_id, pk__in=ids)
    texts = accounts.values_list("pk", KeyTextTransform(canonical_name(trait), "traits"))
    return {
        id: owner
        for id, text in texts
        if (owner := by_text.get((text or "").strip().lower())) is not None
    }


def _members(product_id: int, segment_id: int, ids: list[int]) -> list[int]:
    """Those of the accounts that are in the segment; none if it is gone."""
    segments = Segment.objects.filter(pk=segment_id, scope=Segment.Scope.ACCOUNT)
    segments = segments.select_related("workspace__scores")
    segment = segments.filter(workspace__product=product_id).first()
    scores = segment.workspace.scores if segment else None
    if segment is None or scores is None or scores.scored_day is None:
        return []
    try:
        is_member = members.members_filter(scores, members.segment_rule(segment))
    except InvalidRule:
        return []
    rows = members.engagement_rows(scores, "account").filter(is_member, account_id__in=ids)
    return list(rows.values_list("account_id", flat=True))
