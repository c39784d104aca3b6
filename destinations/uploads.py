"""Links by hand: a CSV file with ids of ours and of records."""

import csv
import io
from collections.abc import Iterator

from django.db import transaction

from core.database import locks
from destinations.models import RecordDestination, RecordLink
from destinations.vendors import CLIENTS
from engagement.scopes import get_kind

MAX_ROWS = 100_000
MAX_PROBLEMS = 10
UPLOADED = "your file"


class UploadRefused(Exception):
    """The file is not stored. The text has a sentence for each of the first problems."""


def store_pairs(destination: RecordDestination, content: bytes) -> int:
    """Link the subjects of the file with its records. Returns how many there are.

    A line has the tracking_id and the record's id. All of them are stored or none. Raises
    UploadRefused.
    """
    pairs: dict[str, str] = {}
    problems, owners = [], dict[str, int]()
    for line, external_id, text in _lines(content):
        remote_id = CLIENTS[destination.vendor].record_id(text)
        if not remote_id:
            problems.append(f"Line {line}: {text[:50] or 'nothing'} is no id of a record.")
        elif external_id in pairs:
            problems.append(f"Line {line}: {external_id[:100]} came before.")
        elif remote_id in owners:
            problems.append(f"Line {line}: the record came before, in line {owners[remote_id]}.")
        pairs[external_id] = remote_id
        owners.setdefault(remote_id, line)
    with transaction.atomic():
        locks.share_lock_products([destination.product_id])
        problems += _store(destination, pairs, owners) if not problems else []
    if problems:
        more = len(problems) - MAX_PROBLEMS
        rest = [f"And {more:,} more."] if more > 0 else []
        raise UploadRefused(" ".join([*problems[:MAX_PROBLEMS], *rest]))
    return len(pairs)


def _lines(content: bytes) -> Iterator[tuple[int, str, str]]:
    """The number and the two values of each line, without a line of headings."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UploadRefused("The file is not UTF-8.") from None
    if "\0" in text:
        raise UploadRefused("The file has a NUL character.")
    rows = [(number, row) for number, row in enumerate(csv.reader(io.StringIO(text)), 1) if row]
    if rows and rows[0][1][0].strip() == "tracking_id":
        del rows[0]
    if not rows or len(rows) > MAX_ROWS:
        raise UploadRefused(f"The file must have 1 to {MAX_ROWS:,} lines.")
    for number, row in rows:
        if len(row) != 2:
            raise UploadRefused(f"Line {number}: two values are needed, and there are {len(row)}.")
        yield number, row[0].strip(), row[1].strip()


def _store(
    destination: RecordDestination, pairs: dict[str, str], lines: dict[str, int]
) -> list[str]:
    """Write the links; return what is wrong instead, if anything is."""
    rows = get_kind(destination.scope).model._default_manager.filter(
        product=destination.product_id, external_id__in=pairs
    )
    ids = dict(rows.values_list("external_id", "pk"))
    problems = [
        f"Line {lines[remote_id]}: there is no {destination.scope} {external_id[:100]}."
        for external_id, remote_id in pairs.items()
        if external_id not in ids
    ]
    others = destination.links.filter(remote_id__in=pairs.values()).exclude(external_id__in=pairs)
    problems += [
        f"Line {lines[link.remote_id]}: the record belongs to {link.external_id}."
        for link in others
    ]
    if problems:
        return problems
    destination.links.filter(external_id__in=pairs).delete()
    RecordLink.objects.bulk_create(
        [
            RecordLink(
                product_id=destination.product_id,
                destination=destination,
                subject_id=ids[external_id],
                external_id=external_id,
                remote_id=remote_id,
                matched_by=UPLOADED,
                state=RecordLink.State.LINKED,
            )
            for external_id, remote_id in pairs.items()
        ],
        batch_size=2_000,
    )
    # The next run looks at all of them.
    RecordDestination.objects.filter(pk=destination.pk).update(cursor={})
    return []
