"""Writes what people decide about accounts: owners, tags, and notes."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import transaction
from django.db.models import CharField, F, Func, QuerySet, Value

from access.trail import entries
from access.trail.entries import Actor
from access.work import owners
from core.database import locks
from engagement.models import Account, AccountNote, AccountWork
from engagement.models.work import TAG_LENGTH

NOTE_LENGTH = 5_000
# Instead of a login. None has such a name.
BY_RULES = ":rules"
# Of an account.
MAX_TAGS = 20
# A bulk change writes a row for each.
MAX_AT_ONCE = 10_000


class CannotWork(ValueError):
    """The message says what is wrong with what somebody entered."""


def choose_owner(product_id: int, account_ids: Sequence[int], owner: str, actor: Actor) -> int:
    """Have the accounts owned by a login, by nobody (empty), or by whom the rules say (BY_RULES).
    Returns how many accounts changed."""
    by_rules = owner == BY_RULES
    if owner and not by_rules and not owners.candidates(product_id).filter(username=owner).exists():
        raise CannotWork("Choose an owner who may see this product.")
    # The rules choose later, and until then it stays as it is.
    values = {"is_by_hand": False} if by_rules else {"owner": owner, "is_by_hand": True}
    whom = "whom the rules say" if by_rules else owner or "nobody"
    with transaction.atomic():
        rows = _locked_rows(product_id, account_ids).exclude(**values)
        return _write(product_id, rows, values, actor, f"Chose {whom} as the owner of")


def add_tag(product_id: int, account_ids: Sequence[int], text: str, actor: Actor) -> int:
    """Tag the accounts. Returns how many did not have the tag, and had room for it."""
    tag = parse_tag(text)
    with transaction.atomic():
        rows = _locked_rows(product_id, account_ids).filter(tags__len__lt=MAX_TAGS)
        rows = rows.exclude(tags__contains=[tag])
        appended = Func(F("tags"), Value(tag, CharField()), function="array_append")
        return _write(product_id, rows, {"tags": appended}, actor, f"Added the tag “{tag}” to")


def remove_tag(product_id: int, account_ids: Sequence[int], tag: str, actor: Actor) -> int:
    with transaction.atomic():
        rows = _locked_rows(product_id, account_ids).filter(tags__contains=[tag])
        removed = Func(
            *(F("tags"), Value(tag, CharField())),
            function="array_remove",
            output_field=ArrayField(CharField()),
        )
        return _write(product_id, rows, {"tags": removed}, actor, f"Removed the tag “{tag}” from")


def parse_tag(text: str) -> str:
    """The tag as it is stored. Raises CannotWork."""
    tag = " ".join(text.replace("\0", "").split())
    if not tag or len(tag) > TAG_LENGTH or "," in tag:
        raise CannotWork(f"Enter a tag of at most {TAG_LENGTH} characters, without a comma.")
    return tag


def _locked_rows(product_id: int, account_ids: Sequence[int]) -> QuerySet[AccountWork]:
    """A row for each of these accounts of the product. Nobody else changes them."""
    ids = shown_under_lock(product_id, account_ids)
    new = [AccountWork(product_id=product_id, account_id=id) for id in ids]
    AccountWork.objects.bulk_create(new, batch_size=2_000, ignore_conflicts=True)
    return AccountWork.objects.filter(product=product_id, account__in=ids)


def shown_under_lock(product_id: int, account_ids: Sequence[int]) -> list[int]:
    """Those of the accounts that are shown. Until the end of the transaction nobody else changes
    their work, or forgets them. Raises CannotWork without any."""
    if len(account_ids) > MAX_AT_ONCE:
        raise CannotWork(f"Choose at most {MAX_AT_ONCE:,} accounts at once.")
    locks.lock_scoring(product_id)
    rows = Account.objects.filter(product=product_id, pk__in=account_ids, is_identified=True)
    ids = sorted(rows.values_list("pk", flat=True))
    if not ids:
        raise CannotWork("These accounts are gone.")
    return ids


def _write(
    product_id: int,
    rows: QuerySet[AccountWork],
    values: dict[str, Any],
    actor: Actor,
    deed: str,
) -> int:
    """Change the rows; return how many."""
    ids = list(rows.values_list("account_id", flat=True))
    if not ids:
        return 0
    AccountWork.objects.filter(product=product_id, account__in=ids).update(**values)
    owners.tell(product_id, ids)
    record(product_id, ids, actor, deed)
    return len(ids)


def record(product_id: int, account_ids: Sequence[int], actor: Actor, deed: str) -> None:
    """Add to the trail what the actor did to the accounts. It names none: it outlives them."""
    is_one = len(account_ids) == 1
    which = f"account {account_ids[0]}" if is_one else f"{len(account_ids):,} accounts"
    entries.record(
        actor,
        entries.Action.CHANGED,
        "account",
        product_id=product_id,
        object_id=account_ids[0] if is_one else "",
        note=f"{deed} {which}.",
    )


# --- Notes ------------------------------------------------------------------------------------


def write_note(account: Account, text: str, actor: Actor, now: datetime) -> None:
    text = text.replace("\0", "").strip()
    if not text or len(text) > NOTE_LENGTH:
        raise CannotWork(f"Enter a note of at most {NOTE_LENGTH:,} characters.")
    with transaction.atomic():
        shown_under_lock(account.product_id, [account.pk])
        AccountNote.objects.create(
            product_id=account.product_id,
            account_id=account.pk,
            author=actor.name,
            text=text,
            written_at=now,
        )
        record(account.product_id, [account.pk], actor, "Wrote a note about")


def delete_note(account: Account, note_id: int, actor: Actor) -> None:
    """Delete a note of the actor's own. That of a colleague stays."""
    with transaction.atomic():
        own = notes_of(account.product_id, [account.pk]).filter(pk=note_id, author=actor.name)
        if not own.delete()[0]:
            raise CannotWork("This note is gone, or somebody else wrote it.")
        record(account.product_id, [account.pk], actor, "Deleted a note about")


def notes_of(product_id: int, account_ids: Collection[int]) -> QuerySet[AccountNote]:
    """The latest first."""
    rows = AccountNote.objects.filter(product=product_id, account__in=account_ids)
    return rows.order_by("-written_at", "-pk")


def work_of(product_id: int, account_ids: Collection[int]) -> dict[int, AccountWork]:
    """The owners and the tags of accounts, by their ids."""
    rows = AccountWork.objects.filter(product=product_id, account__in=account_ids)
    stored = {row.account_id: row for row in rows}
    return {
        id: stored.get(id) or AccountWork(product_id=product_id, account_id=id)
        for id in account_ids
    }


def known_tags(product_id: int, limit: int = 100) -> list[str]:
    """Tags of the product's accounts, to suggest."""
    rows = AccountWork.objects.filter(product=product_id).exclude(tags=[])
    tags = rows.values_list("tags", flat=True).distinct()[:1_000]
    return sorted({tag for own in tags for tag in own}, key=str.casefold)[:limit]
