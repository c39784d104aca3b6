"""The latest chances and the models behind them: found, requested, stored. Pages read them: nothing
here needs numpy."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any, LiteralString, NamedTuple

import msgspec
from django.db import transaction
from django.db.models import F, FloatField, Max, QuerySet
from django.db.models.functions import Coalesce

from core.database import locks, sql
from core.jobs import run
from core.models import Job
from engagement import changes
from engagement.models import AccountChance, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.segments.chances import ShownChance
from engagement.segments.counts import invalidate
from outcomes.chances.cases import OPEN, open_parameters
from outcomes.chances.results import Evidence, Proof, Totals
from outcomes.chances.totals import totals_of
from outcomes.kinds import Kind
from outcomes.models import ChanceLook, ChanceModel
from outcomes.sources import licenses

JOB = "find chances"
# Versions that nothing names any more stay as long.
VERSIONS_KEPT = timedelta(days=7)
# The chance of an account without licenses stays until it, or an end of its interval, moves by as
# much. There may be a million: most would show another percent, and count as changed, each night.
LEAST_MOVE = 0.03


class ChanceRow(NamedTuple):
    """A row of ``AccountChance`` without its workspace and kind. The first two fields are its key;
    ``evidence`` is JSON."""

    account_id: int
    license: str
    began_on: date
    day: date
    chance: float
    low: float
    high: float
    outcomes: int
    is_share: bool
    version: int
    seats: int | None
    cents: int | None
    evidence: str


# --- Reading --------------------------------------------------------------------------------


def running(workspace: Workspace, kind: Kind) -> QuerySet[AccountChance]:
    """The chances of what is being decided, as of the last look."""
    return of_workspace(workspace).filter(kind=kind)


def by_seats(rows: QuerySet[AccountChance]) -> QuerySet[Any]:
    """The chances with ``worth``, the seats that are to be expected of each."""
    seats = Coalesce(F("seats"), 0, output_field=FloatField())
    return rows.annotate(worth=F("chance") * seats)


def of_workspace(workspace: Workspace) -> QuerySet[AccountChance]:
    """Its chances of all kinds."""
    return AccountChance.objects.filter(product=workspace.product_id, workspace=workspace)


def evidence_of(row: AccountChance) -> Evidence:
    """What the chance is made of. Past cases may name accounts that are forgotten since."""
    return msgspec.convert(row.evidence, Evidence)


def models(workspace: Workspace, kind: Kind) -> dict[int, ChanceModel]:
    """The models in use, by their age."""
    rows = ChanceModel.objects.filter(workspace=workspace, kind=kind)
    return {row.age: row for row in rows.order_by("age", "-fitted_at", "-pk").distinct("age")}


def proof_of(model: ChanceModel) -> Proof | None:
    """How such models predicted; None as long as nothing can be judged."""
    return None if model.proof is None else msgspec.convert(model.proof, Proof)


def looked_at(workspace: Workspace) -> datetime | None:
    """The time of the last look; None before the first."""
    looks = ChanceLook.objects.filter(workspace=workspace)
    return looks.values_list("looked_at", flat=True).first()


def totals(workspace: Workspace) -> dict[Kind, Totals]:
    """What the chances of each kind add up to, as of the last look; none before the first."""
    looks = ChanceLook.objects.filter(workspace=workspace)
    stored = looks.values_list("totals", flat=True).first()
    return msgspec.convert(stored or {}, dict[Kind, Totals])


def progress(workspace: Workspace) -> str:
    """That chances are being computed, as a sentence; "" if they are not."""
    job = Job.objects.filter(kind=JOB, key=workspace.pk).first()
    if job is None:
        return ""
    if job.is_paused or job.failures:
        return f"Computing is interrupted: {job.error or 'somebody has paused it.'}"
    return f"Computing: {job.progress} of {job.total} models." if job.total else "Computing soon."


def request(workspace_id: int, now: datetime) -> None:
    """Have the chances of the workspace looked at soon, in the caller's transaction."""
    run.request(JOB, now, workspace_id)


def forget_evidence(subject: SubjectRef, now: datetime) -> None:
    """Look again at chances whose evidence may name the account that is being forgotten."""
    if subject.scope == SubjectScope.ACCOUNT:
        looks = ChanceLook.objects.filter(workspace__product=subject.product_id)
        for workspace_id in looks.values_list("workspace_id", flat=True):
            request(workspace_id, now)


# --- Writing --------------------------------------------------------------------------------


@contextmanager
def writing(workspace: Workspace, job: Job) -> Iterator[bool]:
    """A transaction that writes chances of the workspace. Yields False if its product is being
    deleted. Raises run.LeaseLost.

    Forgetting takes the locks in the same order.
    """
    with transaction.atomic():
        locks.lock_scoring(workspace.product_id)
        with run.holding(job):
            yield bool(locks.share_lock_products([workspace.product_id]))


def _tell(workspace: Workspace, account_ids: set[int]) -> None:
    """Let readers, lists, and watched segments know that these accounts show other chances."""
    if account_ids:
        changes.stamp(workspace.product_id, {"account": account_ids})
        invalidate([workspace.scores_id] if workspace.scores_id else [])


# An account that was forgotten meanwhile gets no row.
_UPSERT: LiteralString = f"""
    INSERT INTO engagement_accountchance AS c (product_id, workspace_id, kind, looked_on,
        {", ".join(ChanceRow._fields)})
    SELECT %(product)s, %(workspace)s, %(kind)s, %(looked_on)s,
        {", ".join(f"k.{name}" for name in ChanceRow._fields[:-1])}, k.evidence::jsonb
    FROM unnest(%(account_id)b::bigint[], %(license)b::text[], %(began_on)b::date[],
        %(day)b::date[], %(chance)b::float8[], %(low)b::float8[], %(high)b::float8[],
        %(outcomes)b::int[], %(is_share)b::bool[], %(version)b::bigint[], %(seats)b::int[],
        %(cents)b::bigint[], %(evidence)b::text[]) AS k({", ".join(ChanceRow._fields)})
    WHERE k.account_id = ANY(%(identified)b::bigint[])
    ON CONFLICT (product_id, workspace_id, account_id, kind, license) DO UPDATE
    SET looked_on = excluded.looked_on,
        {", ".join(f"{name} = excluded.{name}" for name in ChanceRow._fields[2:])}
"""
_IDENTIFIED: LiteralString = """
    SELECT id FROM engagement_account
    WHERE product_id = %(product)s AND is_identified AND id = ANY(%(accounts)b::bigint[])
"""


def write(workspace: Workspace, kind: Kind, looked_on: date, rows: Sequence[ChanceRow]) -> None:
    """Store the chances, in the caller's transaction (``writing``). Accounts that show others then
    are stamped."""
    account_ids = [row.account_id for row in rows]
    own = {"product": workspace.product_id, "accounts": account_ids}
    parameters = {
        "product": workspace.product_id,
        "workspace": workspace.pk,
        "kind": kind.value,
        "looked_on": looked_on,
        "identified": [id for (id,) in sql.fetch(_IDENTIFIED, own)],
    }
    stored = running(workspace, kind).filter(account_id__in=account_ids)
    keys = ("account_id", "license")
    before = {
        (account_id, license): _Numbers(*numbers)
        for account_id, license, *numbers in stored.values_list(*keys, *_Numbers._fields)
    }
    if kind not in licenses.KINDS:
        rows = [_without_small_moves(row, before.get(row[:2])) for row in rows]
    sql.execute(_UPSERT, {**parameters, **sql.arrays(rows, *ChanceRow._fields)})
    texts = {key: ShownChance.of(*numbers) for key, numbers in before.items()}
    others = [row for row in rows if texts.get(row[:2]) != ShownChance.of(*_numbers(row))]
    _tell(workspace, {row.account_id for row in others})


class _Numbers(NamedTuple):
    is_share: bool
    chance: float
    low: float
    high: float


def _numbers(row: ChanceRow) -> _Numbers:
    return _Numbers(row.is_share, row.chance, row.low, row.high)


def _without_small_moves(row: ChanceRow, before: _Numbers | None) -> ChanceRow:
    """The row, with the numbers that it had before if these have hardly moved."""
    numbers = _numbers(row)
    if before is None or numbers.is_share != before.is_share:
        return row
    moves = [abs(new - old) for new, old in zip(numbers[1:], before[1:], strict=True)]
    return row if max(moves) >= LEAST_MOVE else row._replace(**before._asdict())


# Beside what the look did not find: what is decided, answered, or gone since it began.
_DELETE: LiteralString = """
    DELETE FROM engagement_accountchance c
    WHERE c.product_id = %(product)s AND c.workspace_id = %(workspace)s AND c.kind = %(kind)s
      AND (c.looked_on < %(looked_on)s {unless_open})
    RETURNING c.account_id
"""
_UNLESS_OPEN: LiteralString = f"""
    OR NOT EXISTS (SELECT {OPEN} AND a.id = c.account_id AND o.license = c.license)
"""
_DELETE_VERSIONS: LiteralString = """
    DELETE FROM outcomes_chancemodel m
    WHERE m.workspace_id = %(workspace)s AND m.fitted_at < %(before)s
      AND m.id <> ALL(%(in_use)b::bigint[])
      AND NOT EXISTS (
        SELECT FROM outcomes_storedforecast f
        WHERE f.workspace_id = m.workspace_id AND f.versions @> to_jsonb(m.id))
"""


def finish(
    workspace: Workspace,
    kinds: Collection[Kind],
    started_at: datetime,
    revision: int | None,
    score_set_id: int,
) -> None:
    """Note the look at all of these kinds that began then, in the caller's transaction
    (``writing``). Deletes the chances of what is no longer being decided, and versions that nothing
    names."""
    looked_on = started_at.date()
    others = of_workspace(workspace).exclude(kind__in=kinds)
    undecided = set(others.values_list("account_id", flat=True))
    others.delete()
    own: Mapping[str, Any] = {"workspace": workspace.pk, "looked_on": looked_on}
    for kind in kinds:
        unless_open = _UNLESS_OPEN if kind in licenses.KINDS else ""
        parameters = open_parameters(workspace.product_id, kind, looked_on)
        deleted = sql.fetch(_DELETE.format(unless_open=unless_open), {**parameters, **own})
        undecided |= {account_id for (account_id,) in deleted}
    _tell(workspace, undecided)
    latest = ChanceModel.objects.filter(workspace=workspace).values("kind", "age")
    in_use = [row["last"] for row in latest.annotate(last=Max("pk")).order_by()]
    in_use += of_workspace(workspace).order_by().values_list("version", flat=True).distinct()
    before = started_at - VERSIONS_KEPT
    sql.execute(
        _DELETE_VERSIONS, {"workspace": workspace.pk, "before": before, "in_use": sorted(in_use)}
    )
    ChanceLook.objects.update_or_create(
        workspace=workspace,
        defaults={
            "looked_at": started_at,
            "revision": revision,
            "score_set_id": score_set_id,
            "totals": msgspec.to_builtins(
                {kind.value: totals_of(workspace, kind, looked_on) for kind in kinds}
            ),
        },
    )
