"""Sends what changed, a bounded part of a run at a time.

A step reads subjects, finds the records of those without a link, compares, and sends batches. Each
batch is announced before it is sent, and stored with its links before the next one. If a worker
died in between or a response was lost, what was announced is read from the records first, and only
what differs is sent.
"""

import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from django.db.models import F

from core.database import locks, nodes, retries
from core.fields import DecryptionError
from core.jobs import kinds
from core.jobs import run as jobs
from core.jobs.kinds import Blocked, Done, Later, More, Outcome, StepFailed
from core.models import Job
from destinations import matching, runs
from destinations.comparing import Comparison
from destinations.models import RecordDestination, RecordLink, RecordRun
from destinations.records import Record, Value, read_records
from destinations.vendors import open_client
from destinations.vendors.base import (
    BatchRejected,
    CredentialsRejected,
    NotAllowed,
    Throttled,
    Unconfirmed,
    VendorError,
    Write,
    Written,
)
from engagement import changes
from engagement.changes import Benchmarks
from engagement.models import ScoreSet
from engagement.scopes import get_kind

# Subjects that one query reads; and subjects, and of these to be sent, that one step has.
PAGE, SCANNED, WORK = 500, 20_000, 1_000
SAMPLE_ROWS = 20
NOT_SCORED = "The workspace has no scores yet. They are computed in the background."
GONE = "The record is gone, and no other one was found."
UNHEARD = "The CRM has not said whether it created the record."
Kind, LinkState = RecordRun.Kind, RecordLink.State


def register() -> None:
    """Have workers go on with the unfinished runs."""
    kinds.register(
        runs.KIND,
        "Sends values of users and accounts to records of a CRM.",
        queue=runs.QUEUE,
        step=send_next,
        keys=runs.unfinished_ids,
        lease=runs.LEASE,
        backoff=runs.BACKOFF,
        on_give_up=runs.give_up,
        title=runs.title,
    )


def send_next(job: Job, now: datetime) -> Outcome:
    """Go on with the job's run."""
    # A missing node is no failure of the run: it goes on once the node is back.
    with retries.without_missing_nodes():
        run = runs.find_unfinished(job)
        if run is None:
            return Done()
        if run.product_id in nodes.missing_products():
            return Blocked()
        sender = _Sender(job, run, now)
        try:
            return sender.step()
        except Throttled as error:
            runs.update(job, run, sender.now(), error=str(error))
            return Later(_after(error.seconds, sender.now()))
        except CredentialsRejected as error:
            if sender.has_new_key():
                return More()
            runs.pause(sender.destination, str(error), sender.now())
            return Done()
        except NotAllowed as error:
            runs.fail(job, run, str(error), sender.now())
            return Done()
        except (VendorError, DecryptionError) as error:
            runs.update(job, run, sender.now(), error=str(error))
            raise StepFailed(str(error)) from error


def _after(seconds: float | None, now: datetime) -> datetime:
    if seconds is not None:
        return now + timedelta(seconds=seconds)
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + timedelta(days=1)


_Row = TypeVar("_Row")


def _in_parts(
    rows: Sequence[_Row],
    send: Callable[[Sequence[_Row]], list[Written]],
    conclude: Callable[[Sequence[_Row], list[Written]], None],
) -> None:
    """Send the batch. If it is rejected as a whole, send its halves, down to the row at fault."""
    if not rows:
        return
    try:
        results = send(rows)
    except BatchRejected as error:
        if len(rows) > 1:
            half = len(rows) // 2
            _in_parts(rows[:half], send, conclude)
            _in_parts(rows[half:], send, conclude)
            return
        results = [Written(error=str(error))]
    conclude(rows, results)


@dataclass
class _Item:
    """A subject on its way: its link, the record that is stored there, and what its record has, if
    that was read."""

    record: Record
    link: RecordLink
    tried: list[str]
    stored_id: str
    theirs: dict[str, Any] | None = None
    ids: set[str] = field(default_factory=set)
    changed: dict[str, Value] = field(default_factory=dict)
    is_gone: bool = False


class _Sender:
    """Sends a part of the run, for the worker that has its job."""

    def __init__(self, job: Job, run: RecordRun, now: datetime) -> None:
        self._job, self._run = job, run
        self._began, self._started = now, time.monotonic()
        rows = RecordDestination.objects.defer(None).select_related("workspace__scores")
        self.destination = rows.get(pk=run.destination_id)
        self._client = open_client(self.destination, self._count_call)
        self._client.daily_limit = self.destination.daily_limit
        self._comparison = Comparison(self.destination)
        self._match_pairs = matching.match_pairs(self.destination)
        self._reads_all = run.kind in (Kind.COMPARE, Kind.DRY)
        self._is_dry = run.kind == Kind.DRY

    def now(self) -> datetime:
        return self._began + timedelta(seconds=time.monotonic() - self._started)

    def has_new_key(self) -> bool:
        """Whether somebody replaced the key since the step began."""
        stored = RecordDestination.objects.defer(None).get(pk=self.destination.pk)
        own = self.destination
        return (stored.key, stored.client_id) != (own.key, own.client_id)

    def _count_call(self) -> None:
        """Count a request of today. Raises Throttled above our share of the quota."""
        destination, today = self.destination, self.now().astimezone(UTC).date()
        limit = (self._client.daily_limit or self._client.usual_limit) * destination.quota_share
        own = RecordDestination.objects.filter(pk=destination.pk)
        own.exclude(calls_on=today).update(calls_on=today, calls=0)
        if not own.filter(calls__lt=max(1, limit // 100)).update(calls=F("calls") + 1):
            raise Throttled(
                f"{destination.quota_share}% of the CRM’s daily requests are used. The run goes "
                "on at midnight (UTC).",
                None,
            )
        RecordRun.objects.filter(pk=self._run.pk).update(calls=F("calls") + 1)

    # --- A step ---------------------------------------------------------------------------------

    def step(self) -> Outcome:
        """Raises VendorError, LeaseLost, and StepFailed without scores."""
        try:
            return self._step()
        finally:
            if self._client.daily_limit != self.destination.daily_limit:
                own = RecordDestination.objects.filter(pk=self.destination.pk)
                own.update(daily_limit=self._client.daily_limit)

    def _step(self) -> Outcome:
        score_set = self.destination.workspace.scores
        if score_set is None or score_set.scored_day is None:
            raise StepFailed(NOT_SCORED)
        run = self._run
        if run.until is None or run.until["score_set"] != score_set.pk:
            runs.begin(self._job, run, self.destination, score_set, self.now())
        if not self._is_dry:
            self._clear_forgotten()
        items, counts, after, is_last = self._read_part(score_set)
        self._process(items)
        with jobs.holding(self._job, self.now() + runs.LEASE):
            runs.add_counts(run, counts)
            runs.update(self._job, run, self.now(), after=after, error="")
            if is_last:
                runs.finish(self._job, run, self.now())
        return Done() if is_last else More()

    def _read_part(self, score_set: ScoreSet) -> tuple[list[_Item], Counter[str], int, bool]:
        """The subjects to do something about, the numbers of the others, the id of the last one,
        and whether no more follow."""
        items: list[_Item] = []
        counts: Counter[str] = Counter()
        after, scanned = self._run.after, 0
        while len(items) < WORK and scanned < SCANNED:
            ids = self._next_ids(score_set, after)
            if not ids:
                return items, counts, after, True
            runs.update(self._job, self._run, self.now())
            links = self.destination.links.filter(subject_id__in=ids)
            by_id = {link.subject_id: link for link in links}
            records = read_records(self.destination, score_set, ids)
            missing = by_id.keys() - {record.subject_id for record in records}
            self.destination.links.filter(subject_id__in=missing).delete()
            for record in records:
                item = self._item(record, by_id.get(record.subject_id))
                if (outcome := self._settled(item)) is None:
                    items.append(item)
                elif outcome:
                    counts[outcome] += 1
            after, scanned = ids[-1], scanned + len(ids)
        return items, counts, after, False

    def _next_ids(self, score_set: ScoreSet, after: int) -> list[int]:
        kind, run = get_kind(self.destination.scope), self._run
        if run.kind == Kind.RETRY:
            rejected = self.destination.links.filter(state=LinkState.REJECTED)
            ids = rejected.filter(subject_id__gt=after).order_by("subject_id")
            return [id for id in ids.values_list("subject_id", flat=True)[:PAGE] if id is not None]
        if run.kind == Kind.CHANGES and run.since:
            before = Benchmarks(*run.since["benchmarks"])
            stamp = run.since["stamp"]
            return changes.candidate_ids(score_set, kind.scope, stamp, before, after, PAGE)
        rows = kind.engagement_rows(score_set).filter(**{f"{kind.id_column}__gt": after})
        return list(rows.order_by(kind.id_column).values_list(kind.id_column, flat=True)[:PAGE])

    def _item(self, record: Record, link: RecordLink | None) -> _Item:
        if link is None:
            link = RecordLink(
                product_id=self.destination.product_id,
                destination=self.destination,
                subject_id=record.subject_id,
            )
        link.external_id = record.external_id
        tried = matching.match_values(record, self._match_pairs, self._client.domain_fields)
        return _Item(record, link, tried, link.remote_id)

    def _settled(self, item: _Item) -> str | None:
        """The number that the subject counts for without a request; empty if this run counted it
        before. None if something is to be done about it."""
        link = item.link
        if link.run == self._run.pk:
            return ""
        if self._reads_all or self._run.kind == Kind.RETRY:
            return None
        if not link.remote_id:
            is_same_try = link.pk and link.tried == item.tried and link.error != GONE
            settled = {LinkState.UNMATCHED: "skipped", LinkState.AMBIGUOUS: "ambiguous"}
            return settled.get(LinkState(link.state)) if is_same_try else None
        if not self._comparison.is_known(link.last_sent):
            return None
        return None if self._differences(item) else "unchanged"

    def _differences(self, item: _Item) -> dict[str, Value]:
        return self._comparison.differences(item.record.values, item.link.last_sent, item.theirs)

    # --- What is done about subjects ------------------------------------------------------------

    def _process(self, items: Sequence[_Item]) -> None:
        """Match, read, and send. Records that turn out to be gone are looked for once more."""
        for is_last in (False, True):
            missing = self._match([item for item in items if not item.link.remote_id])
            linked = [item for item in items if item.link.remote_id]
            self._read([item for item in linked if self._must_read(item)])
            self._send([item for item in linked if not item.is_gone])
            self._create_missing(missing)
            items = [item for item in linked if item.is_gone]
            for item in items:
                item.link.remote_id, item.is_gone, item.theirs = "", False, None
                item.link.last_sent, item.ids = {}, set()
            if is_last:
                for item in items:
                    item.link.state, item.link.error = LinkState.REJECTED, GONE
                self._store(items, Counter(rejected=len(items)))

    def _must_read(self, item: _Item) -> bool:
        return self._reads_all or not self._comparison.is_known(item.link.last_sent)

    def _match(self, items: Sequence[_Item]) -> list[_Item]:
        """Set the record of each item for which there is exactly one that nobody else has. Returns
        those whose record is to be created."""
        self._find(items)
        creates = self.destination.mode == RecordDestination.Mode.CREATE
        states = {LinkState.AMBIGUOUS: "ambiguous", LinkState.UNMATCHED: "skipped"}
        by_state: dict[RecordLink.State, list[_Item]] = {}
        for item in items:
            by_state.setdefault(LinkState(item.link.state), []).append(item)
        missing = by_state.pop(LinkState.UNMATCHED, []) if creates else []
        # So that nobody looks for them again, even if the step ends here.
        for state, own in by_state.items():
            for chunk in self._chunks(own):
                counts = Counter({states[state]: len(chunk)} if state in states else {})
                self._store(chunk, counts, is_settled=state in states)
        return missing

    def _find(self, items: Sequence[_Item]) -> None:
        for number, pair in enumerate(self._match_pairs):
            by_value: dict[str, list[_Item]] = {}
            for item in items:
                if not item.ids and item.tried[number]:
                    by_value.setdefault(item.tried[number], []).append(item)
            for chunk in self._chunks(list(by_value)):
                ids_of = self._client.find(self._comparison.field(pair.field), chunk)
                for value in chunk:
                    for item in by_value[value]:
                        item.ids = ids_of.get(value.lower(), set())
                        item.link.matched_by = pair.field
        ids = {id for item in items if len(item.ids) == 1 for id in item.ids}
        owners = dict(
            self.destination.links.filter(remote_id__in=ids).values_list("remote_id", "external_id")
        )
        for item in items:
            item.link.tried, item.link.error = item.tried, ""
            name = item.record.external_id
            if len(item.ids) > 1:
                self._set_ambiguous(item, f"{len(item.ids)} records match.")
            elif (owner := owners.get(min(item.ids, default=""), name)) != name:
                self._set_ambiguous(item, f"The record belongs to {owner} already.")
            elif item.ids:
                (item.link.remote_id,) = item.ids
                item.link.state = LinkState.LINKED
                owners[item.link.remote_id] = name
            else:
                item.link.state = LinkState.UNMATCHED

    def _set_ambiguous(self, item: _Item, error: str) -> None:
        item.link.state, item.link.error = LinkState.AMBIGUOUS, error

    def _read(self, items: Sequence[_Item]) -> None:
        names = [pair.field for pair in self._comparison.pairs]
        for chunk in self._chunks(items):
            theirs = self._client.read([item.link.remote_id for item in chunk], names)
            for item in chunk:
                item.theirs = theirs.get(item.link.remote_id)
                item.is_gone = item.theirs is None

    def _send(self, items: Sequence[_Item]) -> None:
        for item in items:
            item.changed = self._differences(item)
        same = [item for item in items if not item.changed]
        for chunk in self._chunks(same):
            for item in chunk:
                self._settle(item)
            self._store(chunk, Counter(unchanged=len(chunk)))
        for chunk in self._chunks([item for item in items if item.changed]):
            if self._is_dry:
                self._show(chunk)
            else:
                _in_parts(self._announced(chunk), self._update, self._conclude)

    def _create_missing(self, items: Sequence[_Item]) -> None:
        ids: set[str] = set()
        for item in items:
            values = item.record.values.items()
            item.changed = {name: value for name, value in values if value not in (None, "")}
            # Unique fields of CRMs know no case.
            if (id := item.record.external_id.lower()) in ids:
                self._set_ambiguous(item, "Another one differs only by the case of its id.")
            ids.add(id)
        twins = [item for item in items if item.link.state == LinkState.AMBIGUOUS]
        for chunk in self._chunks(twins):
            self._store(chunk, Counter(ambiguous=len(chunk)))
        items = [item for item in items if item.link.state != LinkState.AMBIGUOUS]
        for chunk in self._chunks(items):
            if self._is_dry:
                self._store(chunk, Counter(created=len(chunk)))
            else:
                for item in chunk:
                    item.link.state, item.link.error = LinkState.REJECTED, UNHEARD
                    item.link.sent_at = self.now()
                present = self._store(chunk, Counter(), is_settled=False)
                _in_parts(present, self._create, self._conclude)

    # --- Batches --------------------------------------------------------------------------------

    def _announced(self, items: Sequence[_Item]) -> list[_Item]:
        """Note that the records may soon have other values than are known. Returns the items that
        nobody has forgotten."""
        now = self.now()
        links = self.destination.links.filter(pk__in=[item.link.pk for item in items])
        with jobs.holding(self._job, now + runs.LEASE):
            locks.share_lock_products([self.destination.product_id])
            links.exclude(subject_id=None).update(last_sent={}, sent_at=now)
            ids = set(links.exclude(subject_id=None).values_list("pk", flat=True))
        return [item for item in items if item.link.pk in ids]

    def _update(self, items: Sequence[_Item]) -> list[Written]:
        return self._client.update(
            [Write(item.link.remote_id, self._comparison.wired(item.changed)) for item in items]
        )

    def _create(self, items: Sequence[_Item]) -> list[Written]:
        writes = [Write("", self._comparison.wired(item.changed)) for item in items]
        return self._client.upsert(self.destination.id_field, writes)

    def _conclude(self, items: Sequence[_Item], results: Sequence[Written]) -> None:
        counts: Counter[str] = Counter()
        concluded = []
        for item, result in zip(items, results, strict=True):
            item.is_gone = result.is_gone
            if result.is_gone:
                continue
            concluded.append(item)
            if result.error:
                item.link.state, item.link.error = LinkState.REJECTED, result.error
                counts["rejected"] += 1
                continue
            item.link.remote_id, item.link.sent_at = result.remote_id, self.now()
            self._settle(item)
            counts["created" if result.is_new else "updated"] += 1
        self._store(concluded, counts)

    def _settle(self, item: _Item) -> None:
        """Note that the record has our values."""
        link, values = item.link, item.record.values
        is_known = item.theirs is None and link.last_sent
        link.last_sent = {**link.last_sent, **(item.changed if is_known else values)}
        link.state, link.error = LinkState.LINKED, ""

    def _show(self, items: Sequence[_Item]) -> None:
        """Add to the sample of a dry run."""
        sample = self._run.sample
        for item in items:
            for name, value in self._comparison.wired(item.changed).items():
                if len(sample) < SAMPLE_ROWS:
                    theirs = (item.theirs or {}).get(name)
                    label = self._comparison.field(name).label
                    sample.append([item.record.name, label, theirs, value])
        runs.update(self._job, self._run, self.now(), sample=sample)
        self._store(items, Counter(updated=len(items)))

    def _store(
        self, items: Sequence[_Item], counts: Counter[str], *, is_settled: bool = True
    ) -> Sequence[_Item]:
        """Write the links of the items, and count them, in one transaction. Returns the items that
        nobody has forgotten meanwhile: the others get no link. The run decides nothing more about
        what *is_settled*."""
        if not items:
            return items
        kind, product_id = get_kind(self.destination.scope), self.destination.product_id
        with jobs.holding(self._job, self.now() + runs.LEASE):
            # Nobody is forgotten until this is written.
            locks.share_lock_products([product_id])
            ids = [item.record.external_id for item in items]
            rows = kind.model._default_manager.filter(product=product_id, external_id__in=ids)
            present = set(rows.values_list("external_id", flat=True))
            items = [item for item in items if item.record.external_id in present]
            links = [item.link for item in items]
            for link in links:
                link.run = self._run.pk if is_settled else link.run
            moved = [item.link.pk for item in items if item.link.remote_id != item.stored_id]
            # One record may go from one of them to another.
            self.destination.links.filter(pk__in=moved).update(remote_id="")
            RecordLink.objects.bulk_create(
                links,
                update_conflicts=True,
                unique_fields=["destination", "subject_id"],
                update_fields=[
                    *("external_id", "remote_id", "matched_by", "tried", "last_sent", "sent_at"),
                    *("state", "error", "run"),
                ],
            )
            runs.add_counts(self._run, counts)
        return items

    def _chunks(self, items: Sequence[Any]) -> Iterator[Any]:
        size = self._client.batch
        return (items[start : start + size] for start in range(0, len(items), size))

    # --- Who was forgotten ----------------------------------------------------------------------

    def _clear_forgotten(self) -> None:
        """Clear our fields of the records of who was forgotten, and delete their links."""
        links = self.destination.links.filter(state=LinkState.FORGOTTEN).exclude(run=self._run.pk)
        own = self._comparison.cleared()
        for chunk in self._chunks(list(links)):
            runs.update(self._job, self._run, self.now())
            self._find_created(chunk)
            theirs = self._client.read([link.remote_id for link in chunk if link.remote_id], [*own])
            # A worker that died then has cleared the others, or nobody created them.
            filled = [
                link
                for link in chunk
                if link.remote_id and self._comparison.has_others(own, theirs.get(link.remote_id))
            ]
            rest = {link.pk for link in chunk} - {link.pk for link in filled}
            RecordLink.objects.filter(pk__in=rest).delete()
            _in_parts(filled, partial(self._clear, own, theirs), self._conclude_clearing)

    def _clear(
        self, own: Mapping[str, Value], theirs: Container[str], links: Sequence[RecordLink]
    ) -> list[Written]:
        try:
            return self._client.update([Write(link.remote_id, own) for link in links])
        except Unconfirmed:
            # Neither reading nor writing found one of them.
            if any(link.remote_id in theirs for link in links):
                raise
            return [Written(is_gone=True)] * len(links)

    def _conclude_clearing(self, links: Sequence[RecordLink], results: Sequence[Written]) -> None:
        for link, result in zip(links, results, strict=True):
            row = RecordLink.objects.filter(pk=link.pk)
            if result.error and not result.is_gone:
                row.update(error=result.error, run=self._run.pk)
            else:
                row.delete()

    def _find_created(self, links: Sequence[RecordLink]) -> None:
        """Set the record of those whose creation nobody heard of, by our id."""
        id_field = self.destination.id_field
        by_id = {link.tried[0].lower(): link for link in links if link.tried and id_field}
        if by_id:
            ids_of = self._client.find(self._comparison.field(id_field), list(by_id))
            for id, link in by_id.items():
                link.remote_id = next(iter(ids_of.get(id, ())), "")
