"""What benchmarks do inside the service: ``python -m benchmarks.within COMMAND …``.

A process of its own, so that only the service's code shares its interpreter. Prints JSON.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from ipaddress import ip_network
from itertools import cycle
from pathlib import Path
from typing import Any, LiteralString

import django
import msgspec
import psutil
import psycopg
from django.conf import settings
from django.db import connection, transaction
from django.urls import reverse
from django.utils import timezone

django.setup()

# The apps must be loaded first.
from benchmarks.messages import generate  # noqa: E402
from console.subjects import subject_details  # noqa: E402
from core import credentials  # noqa: E402
from core.database import sql  # noqa: E402
from core.jobs import kinds  # noqa: E402
from core.jobs.run import finish, request, run_due, run_kinds  # noqa: E402
from core.models import Job  # noqa: E402
from destinations import runs as record_runs  # noqa: E402
from destinations import uploads  # noqa: E402
from destinations.models import RecordDestination, RecordRun  # noqa: E402
from destinations.vendors import open_client  # noqa: E402
from engagement import changes, event_lookup  # noqa: E402
from engagement import tasks as scoring  # noqa: E402
from engagement.messages import Identify, Message, ReceivedMessage, Track  # noqa: E402
from engagement.metric_names import Scope  # noqa: E402
from engagement.models import (  # noqa: E402
    Account,
    Alarm,
    AlarmNight,
    EventName,
    EventWeight,
    Product,
    ScoreSet,
    StoredOrder,
    User,
    Workspace,
)
from engagement.nights.jobs import DECIDE_ALARMS  # noqa: E402
from engagement.recording.jobs import REATTRIBUTE  # noqa: E402
from engagement.recording.record import record  # noqa: E402
from engagement.recording.suppression import SubjectRef, SubjectScope  # noqa: E402
from engagement.removal.forgetting import forget  # noqa: E402
from engagement.removal.jobs import ERASE_FORGOTTEN  # noqa: E402
from engagement.rescoring import activation, sets, what_if  # noqa: E402
from engagement.rescoring.jobs import ACTIVATION, ORDERS  # noqa: E402
from engagement.rescoring.rescore import rescore  # noqa: E402
from engagement.rules.steps import Step  # noqa: E402
from engagement.scores import activation_figures, raw, sampling  # noqa: E402
from engagement.scores.activation import current  # noqa: E402
from exports import runs  # noqa: E402
from exports.models import ExportRun, Extent, ScheduledExport, Table  # noqa: E402
from exports.writing import QUEUE  # noqa: E402
from ingestion import tasks  # noqa: E402
from ingestion.bulk import exporting, files, importing  # noqa: E402
from ingestion.drain import processing  # noqa: E402
from ingestion.models import IngestionKey  # noqa: E402
from ingestion.payloads import encode  # noqa: E402
from notifications.models import Destination, Subscription, Watch  # noqa: E402
from notifications.watching.sweep import sweep as sweep_watches  # noqa: E402
from notifications.watching.watches import assign_watch  # noqa: E402
from outcomes.backtests import backtest as backtests  # noqa: E402
from outcomes.backtests import storage  # noqa: E402
from outcomes.backtests.effect import would_have_predicted  # noqa: E402
from outcomes.chances import storage as chances  # noqa: E402
from outcomes.forecasts import storage as forecasts  # noqa: E402
from outcomes.forecasts.results import month_after  # noqa: E402
from outcomes.kinds import Kind  # noqa: E402
from outcomes.models import ChanceLook  # noqa: E402
from outcomes.past_scores.late_events import late_share  # noqa: E402
from outcomes.suggestions import storage as suggestions  # noqa: E402
from outcomes.suggestions.jobs import compute as compute_suggestion  # noqa: E402
from trends.figures.jobs import DAYS_PER_STEP  # noqa: E402
from trends.figures.jobs import JOB as FIGURES  # noqa: E402
from trends.models import WHOLE, DayFigures  # noqa: E402

_COPY: LiteralString = """
    COPY ingestion_inboxmessage (received_at, key_digest, key_hint, payload)
    FROM STDIN (FORMAT BINARY)
"""


def fill(messages: str, *keys: str) -> dict[str, Any]:
    """Put messages that came with the keys in turn into the inbox, in one transaction."""
    tracks = 0
    senders = cycle((credentials.digest(k), credentials.hint(k, IngestionKey.PREFIX)) for k in keys)

    def rows() -> Iterator[sql.Row]:
        nonlocal tracks
        now: datetime = timezone.now()
        for message in generate(int(messages), now, seed=int(messages)):
            tracks += isinstance(message, Track)
            yield now, *next(senders), encode(message)

    sql.copy(_COPY, ("timestamptz", "bytea", "text", "bytea"), rows())
    return {"messages": int(messages), "tracks": tracks}


def create_products(count: str) -> dict[str, Any]:
    """Create products with a workspace and a key each; the keys."""
    products = [Product.create_with_workspace(f"Product {place}") for place in range(int(count))]
    return {"keys": [IngestionKey.create(product, "Benchmark").secret for product in products]}


def compute_orders() -> dict[str, Any]:
    """Compute the stored orders of all large score sets at once, as if somebody waited for each."""
    request(ORDERS, timezone.now())
    run_due("scoring", timezone.now)
    missing = StoredOrder.objects.filter(version=0)
    missing.update(computed_at=None, used_at=timezone.now())
    run_due("scoring", timezone.now)
    seconds = StoredOrder.objects.values_list("scope", "column", "seconds")
    return {f"{scope} {column}": duration for scope, column, duration in seconds}


def run_night(name: str) -> dict[str, Any]:
    """Run the jobs of this kind that a night has to do; steps, seconds, and memory."""
    # Late in the day, because no night is due before one in the morning.
    now = timezone.now().replace(hour=23, minute=59)
    kind, watch = kinds.get(name), Stopwatch()
    assert kind is not None, name
    Job.objects.filter(kind=name).delete()
    steps = run_kinds([kind], lambda: now, lambda: False)
    errors = list(Job.objects.filter(kind=name, failures__gt=0).values_list("error", flat=True))
    assert not errors, errors
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"steps": steps, "peak_mb": peak, **watch.read()}


def fill_and_wake(messages: str, key: str) -> dict[str, Any]:
    """Fill, then wake the worker as a web process does; ``at`` is when the fill was committed."""
    result = fill(messages, key)
    at = time.time()
    tasks.drain.apply_async(expires=60, retry=False)
    return {**result, "at": at}


class Stopwatch:
    """Wall-clock seconds, and processor seconds of this process and of PostgreSQL's for it."""

    def __init__(self) -> None:
        connection.ensure_connection()
        self._backend = psutil.Process(connection.connection.info.backend_pid)
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        backend = self._backend.cpu_times()
        return {
            "seconds": time.monotonic(),
            "processor_seconds": time.process_time(),
            "database_seconds": backend.user + backend.system,
        }

    def read(self) -> dict[str, float]:
        return {name: now - self._before[name] for name, now in self._read().items()}


def rescore_both(product: str, rounds: str) -> dict[str, list[float]]:
    """Score a product's users and accounts as after an event of today, in turns with a lookback of
    30 days and with a half-life of 60. Returns the seconds of each."""
    workspaces = [
        Workspace.objects.create(
            product_id=int(product), name=name, lookback_days=30, half_life_days=half_life
        )
        for name, half_life in (("lookback", None), ("half-life", 60))
    ]
    for workspace in workspaces:
        while workspace.scores is None:
            rescore(timezone.now())
            workspace.refresh_from_db()
    # In an order of its own, as events come.
    users, accounts = (
        sorted(model.objects.filter(product=int(product)).values_list("pk", flat=True), key=hash_of)
        for model in (User, Account)
    )
    seconds: dict[str, list[float]] = {workspace.name: [] for workspace in workspaces}
    for turn in range(int(rounds)):
        today = timezone.now().date()
        for workspace in workspaces if turn % 2 else reversed(workspaces):
            score_set = ScoreSet.objects.get(workspace=workspace, state="current")
            started = time.perf_counter()
            for ids, score in ((users, raw.score_users), (accounts, raw.score_accounts)):
                for start in range(0, len(ids), 200):
                    part = ids[start : start + 200]
                    with transaction.atomic():
                        score(score_set, part, today, part)
            seconds[workspace.name].append(time.perf_counter() - started)
    return seconds


def hash_of(pk: int) -> int:
    return pk * 2_654_435_761 % 2**32


def change_weight(workspace_id: str, weight: str) -> dict[str, Any]:
    """Give the workspace's first event name the weight, as the admin does; ``at`` is when that was
    committed."""
    workspace = Workspace.objects.get(pk=int(workspace_id))
    name = EventName.objects.filter(product_id=workspace.product_id).earliest("pk")
    with transaction.atomic():
        EventWeight.objects.update_or_create(
            workspace=workspace, event_name=name, defaults={"weight": int(weight)}
        )
        sets.request_score_set(workspace.pk)
    at = time.time()
    scoring.request_rescore()
    return {"at": at}


def drain() -> dict[str, Any]:
    """Drain the inbox; messages, and what it took."""
    watch = Stopwatch()
    drained = processing.drain(timezone.now)
    return {"messages": drained.messages, **watch.read()}


def write_lines(path: str, messages: str, seed: str) -> dict[str, Any]:
    """Write a file of messages as ``import_messages`` takes it."""
    tracks = 0
    with Path(path).open("wb") as file:
        for message in generate(int(messages), timezone.now(), int(seed)):
            tracks += isinstance(message, Track)
            file.write(_line(message))
    return {"messages": int(messages), "tracks": tracks}


def _line(message: Message) -> bytes:
    content = {"type": type(message).__name__.lower(), **msgspec.structs.asdict(message)}
    renamed = {"user_id": "userId", "group_id": "groupId", "message_id": "messageId"}
    present = {
        renamed.get(name, name): value for name, value in content.items() if value is not None
    }
    return msgspec.json.encode(present) + b"\n"


def import_lines(path: str, product_id: str) -> dict[str, Any]:
    """Import the file; lines, and what it took."""
    digest = files.file_digest(Path(path))
    start = importing.start_or_resume(int(product_id), digest, path, timezone.now(), again=False)
    watch = Stopwatch()
    problems: list[importing.Problem] = []
    with Path(path).open("rb") as file:
        importing.run_import(start, files.LineReader(file), problems.extend, timezone.now)
    return {
        "lines": start.lines,
        "recorded": start.recorded,
        "problems": len(problems),
        **watch.read(),
    }


def export_lines(path: str, product_id: str) -> dict[str, Any]:
    """Export the product to the file; lines, seconds, and the most memory it took, in MB."""
    started, lines = time.monotonic(), 0
    with Path(path).open("wb") as file:
        for line in exporting.export_lines(int(product_id)):
            file.write(line)
            lines += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"lines": lines, "seconds": time.monotonic() - started, "peak_mb": peak}


def export_files(folder: str, product_id: str) -> dict[str, Any]:
    """Run a complete scheduled export of the accounts into the folder, and one of changes; rows,
    bytes, and seconds of both, and the most memory it took, in MB."""
    settings.EXPORT_FOLDER = folder
    export, _ = ScheduledExport.objects.update_or_create(
        product_id=int(product_id),
        name="Benchmark",
        defaults={
            "workspace": Workspace.objects.filter(product=int(product_id)).order_by("pk")[0],
            "tables": [Table.ACCOUNTS],
            "extent": Extent.CHANGES,
            "store_kind": ScheduledExport.StoreKind.FOLDER,
            "cursor": {},
            "verified_at": timezone.now(),
        },
    )
    measured: dict[str, Any] = {}
    for name in ("complete", "changes"):
        started = time.monotonic()
        assert runs.request_run(export, timezone.now())
        run_due(QUEUE, timezone.now)
        run = export.runs.latest("pk")
        assert run.state == ExportRun.State.DONE, run.error
        seconds = time.monotonic() - started
        measured[name] = {"rows": run.rows, "bytes": run.bytes, "seconds": seconds}
        export.refresh_from_db()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**measured, "peak_mb": peak}


def score_all() -> dict[str, Any]:
    """Work off the rescore queue and build requested sets; seconds, and whether nothing is left."""
    watch = Stopwatch()
    rescore(timezone.now())
    building = ScoreSet.objects.exclude(state=ScoreSet.State.CURRENT).exists()
    is_done = Workspace.objects.filter(scores__isnull=False).exists() and not building
    return {"is_done": is_done, **watch.read()}


def subscribe(product_id: str, count: str) -> dict[str, Any]:
    """Replace the product's subscriptions: each is about a set of its own, and starts now."""
    product = int(product_id)
    Watch.objects.filter(product=product).delete()
    Destination.objects.filter(product=product).delete()
    destination = Destination.objects.create(
        product_id=product, kind="webhook", name="CRM", address="https://example.com/",
        state=Destination.State.ACTIVE,
    )  # fmt: skip
    workspace = Workspace.objects.get(product=product)
    for place in range(int(count)):
        subscription = Subscription.objects.create(
            product_id=product, workspace=workspace, destination=destination, scope="account",
            trigger="score_crossed", direction="up", threshold=1 + 98 * place / int(count),
        )  # fmt: skip
        assign_watch(subscription)
    return sweep()


def enable(product_id: str, count: str) -> dict[str, Any]:
    """Enable the product's first subscriptions only."""
    subscriptions = Subscription.objects.filter(product=int(product_id)).order_by("pk")
    enabled = list(subscriptions.values_list("pk", flat=True)[: int(count)])
    subscriptions.update(is_enabled=False)
    return {"enabled": subscriptions.filter(pk__in=enabled).update(is_enabled=True)}


def sweep() -> dict[str, Any]:
    """Look at all watched sets once; seconds, and how many there were."""
    Watch.objects.update(swept_at=None)
    ScoreSet.objects.update(benchmarks_stale=False)
    watch = Stopwatch()
    return {"swept": sweep_watches(timezone.now()), **watch.read()}


def night(product_id: str, name: str) -> dict[str, Any]:
    """Decide the night after yesterday, or a day later the *second* one; seconds, memory, and
    statements."""
    # Late in the day, because no night is due before one in the morning.
    now = timezone.now().replace(hour=23, minute=59) + timedelta(days=name == "second")
    today = now.date()
    score_set = ScoreSet.objects.get(product=int(product_id), state=ScoreSet.State.CURRENT)
    if name == "first":
        score_set.active_days_until = today - timedelta(days=1)
        last = today - timedelta(days=2)
        # Otherwise it would replay 26 weeks.
        AlarmNight.objects.filter(workspace=score_set.workspace_id).delete()
        AlarmNight.objects.create(
            workspace_id=score_set.workspace_id, day=last, user_days=0, decided_at=now
        )
    score_set.scored_day = today
    score_set.save(update_fields=["active_days_until", "scored_day"])
    kind = kinds.get(DECIDE_ALARMS)
    assert kind is not None
    statements, execute = 0, psycopg.Cursor.execute

    def count(cursor: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal statements
        statements += 1
        return execute(cursor, *arguments, **options)

    psycopg.Cursor.execute = count  # type: ignore[assignment, method-assign]
    before, watch = psutil.Process().memory_info().rss / 1e6, Stopwatch()
    run_kinds([kind], lambda: now, lambda: False)
    alarms = Alarm.objects.filter(product=int(product_id), ended_on=None, level=2)
    decided = AlarmNight.objects.get(
        workspace=score_set.workspace_id, day=today - timedelta(days=1)
    )
    return {
        **watch.read(),
        "before_mb": before,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "statements": statements,
        "accounts": decided.accounts,
        "alarms": alarms.count(),
    }


def figures(workspace_id: str, name: str) -> dict[str, Any]:
    """Compute the figures of yesterday, or those of 91 days; seconds, memory, and bytes kept."""
    now = timezone.now().replace(hour=23, minute=59)
    today = now.date()
    score_set = ScoreSet.objects.get(workspace=int(workspace_id), state=ScoreSet.State.CURRENT)
    score_set.scored_day, score_set.figures_stale_from = today, None
    score_set.save(update_fields=["scored_day", "figures_stale_from"])
    rows = DayFigures.objects.filter(workspace=int(workspace_id))
    if name != "a night":
        rows.filter(segment_id=WHOLE, day__gte=today - timedelta(days=DAYS_PER_STEP)).delete()
    # It rests after the night.
    Job.objects.filter(kind=FIGURES).delete()
    kind = kinds.get(FIGURES)
    assert kind is not None
    watch = Stopwatch()
    run_kinds([kind], lambda: now, lambda: False)
    size = "SELECT sum(pg_column_size(f)) FROM trends_dayfigures f WHERE day = %(day)s"
    ((row_bytes,),) = sql.fetch(size, {"day": today - timedelta(days=1)})
    ((roster_bytes,),) = sql.fetch("SELECT sum(pg_column_size(members)) FROM trends_segmentroster")
    return {
        **watch.read(),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "bytes_per_day": row_bytes,
        "roster_bytes": roster_bytes,
    }


_DEFINITIONS = {"7 days": (7, None), "30 days": (30, None), "half-life": (30, 60)}


def backtest(product_id: str, name: str) -> dict[str, Any]:
    """Compute the backtest of renewals under a definition, and the effect of a change; seconds,
    memory, and statements."""
    workspace = Workspace.objects.select_related("scores").get(product=int(product_id))
    assert workspace.scores is not None
    today, current = timezone.now().date(), what_if.scoring_definition(workspace.scores)
    lookback, half_life = _DEFINITIONS[name]
    # A default weight of its own makes it another definition than the current one.
    definition = current._replace(lookback_days=lookback, default_weight=2, weights={"Paid": 5})
    if half_life:
        definition = definition._replace(half_life_days=half_life)
    statements, execute = 0, psycopg.Cursor.execute

    def count(cursor: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal statements
        statements += 1
        return execute(cursor, *arguments, **options)

    psycopg.Cursor.execute = count  # type: ignore[assignment, method-assign]
    before, watch = psutil.Process().memory_info().rss / 1e6, Stopwatch()
    result = backtests.run(workspace, Kind.RENEWAL, today, definition)
    figures, peak = watch.read(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    storage.save(workspace, None, result, definition, timezone.now())
    watch, counted = Stopwatch(), statements
    effect = would_have_predicted(workspace.scores, definition, today)
    assert effect is not None
    return {
        **figures,
        "before_mb": before,
        "peak_mb": peak,
        "statements": counted,
        "outcomes": result.horizons[0].outcomes,
        "effect_seconds": watch.read()["seconds"],
    }


def suggest_weights(product_id: str) -> dict[str, Any]:
    """Compute and store a suggestion from renewals, which have a backtest; what that took, and the
    address of the page that shows both."""
    workspace = Workspace.objects.get(product=int(product_id))
    with transaction.atomic():
        assert suggestions.request(workspace, Kind.RENEWAL, timezone.now())
    job = Job.objects.get(kind=suggestions.JOB)
    watch = Stopwatch()
    compute_suggestion(job, timezone.now())
    page = reverse("admin:engagement_workspace_backtest", args=[workspace.pk])
    return {**watch.read(), "page": f"{page}?kind={Kind.RENEWAL}"}


def forecast_past(product_id: str) -> dict[str, Any]:
    """Have a forecast of the quarter that began two months ago; the pages to open, and what each
    must say."""
    workspace = Workspace.objects.get(product=int(product_id))
    first_day = month_after(timezone.now().date(), -2)
    at = datetime(first_day.year, first_day.month, 1, 5, tzinfo=UTC)
    look = {"looked_at": at, "score_set_id": workspace.scores_id}
    ChanceLook.objects.update_or_create(workspace=workspace, defaults=look)
    assert finish(forecasts.JOB, workspace.pk, lambda: at)
    ChanceLook.objects.all().delete()
    renewals, evaluations = (
        reverse(f"admin:engagement_workspace_{name}", args=[workspace.pk])
        for name in ("forecast", "chances")
    )
    # A month of which all terms are ahead: of the present one, few are on its last days. There
    # are 25 accounts on a page.
    month = f"{month_after(first_day, 3):%Y-%m}"
    last = {
        kind: chances.running(workspace, kind).count() // 150
        for kind in (Kind.RENEWAL, Kind.EVALUATION)
    }
    later = f"month={month}&measure=seats&page={last[Kind.RENEWAL]}"
    return {
        "pages": [
            ("renewals", f"{renewals}?past={first_day:%Y-%m}", "who made the difference"),
            ("renewals, a later page", f"{renewals}?{later}", 'rel="prev"'),
            ("evaluations", evaluations, "How good such chances were"),
            (
                "evaluations, a later page",
                f"{evaluations}?page={5 * last[Kind.EVALUATION]}",
                'rel="prev"',
            ),
        ]
    }


def look_ahead(product_id: str, day: str) -> dict[str, Any]:
    """Look at the chances of the product, and forecast its renewals; what that took, how many have
    a chance, and how many accounts count as changed. *day* is now or tomorrow."""
    workspace = Workspace.objects.get(product=int(product_id))
    now = timezone.now() + timedelta(days=day == "tomorrow")
    since, watch = changes.latest_stamp(workspace.product_id), Stopwatch()
    for job in (chances.JOB, forecasts.JOB):
        assert finish(job, workspace.pk, lambda: now), Job.objects.values_list("error")
    figures = watch.read()
    changed = "SELECT count(*) FROM engagement_subjectchange WHERE product_id = %(product)s"
    parameters = {"product": workspace.product_id, "since": since}
    ((count,),) = sql.fetch(changed + " AND stamp > %(since)s", parameters)
    return {
        **figures,
        "chances": chances.of_workspace(workspace).count(),
        "changed": count,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


_FIELDS = {
    "hubspot": ("domain", "eds_score", "plan"),
    "salesforce": ("Website", "EDS_Score__c", "Plan__c"),
}


def send_records(vendor: str, product_id: str, url: str, kind: str, factor: str) -> dict[str, Any]:
    """Move the scores of the accounts by their benchmark, and run the CRM's destination, which the
    first call makes with the links of a file; what the run counted, and its seconds."""
    settings.HUBSPOT_API_URL = settings.SALESFORCE_URL = url
    settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("127.0.0.0/8")]
    workspace = Workspace.objects.select_related("scores").get(product=int(product_id))
    site, score, plan = _FIELDS[vendor]
    destination, is_new = RecordDestination.objects.get_or_create(
        product_id=workspace.product_id, workspace=workspace, vendor=vendor,
        defaults={
            "key": "planted-key", "client_id": "planted-app", "host": "x.my.salesforce.com",
            "state": RecordDestination.State.ACTIVE, "next_run_at": timezone.now(),
            "match": [{"source": "domain", "field": site}],
            "mapping": [{"source": "score", "field": score, "rule": "clear"},
                        {"source": "trait:plan", "field": plan, "rule": "clear"}],
        },
    )  # fmt: skip
    if is_new:
        destination.fields = msgspec.to_builtins(open_client(destination, lambda: None).fields())
        destination.save(update_fields=["fields"])
        links = Path(settings.DATA_DIR, "links.csv").read_bytes()
        uploads.store_pairs(destination, links)
    assert workspace.scores is not None
    benchmark = round((workspace.scores.account_benchmark or 0) * float(factor))
    ScoreSet.objects.filter(pk=workspace.scores.pk).update(account_benchmark=benchmark)
    own_kind, watch = kinds.get(record_runs.KIND), Stopwatch()
    assert own_kind is not None
    assert record_runs.request_run(destination, RecordRun.Kind(kind), timezone.now())
    run_kinds([own_kind], timezone.now, lambda: False)
    run = destination.runs.first()
    assert run is not None and run.state == RecordRun.State.DONE, Job.objects.values_list("error")
    return {**watch.read(), **{name: getattr(run, name) for name in RecordRun.COUNTERS}}


_STEPS = [
    Step("Once", "event", "Opened", within_days=7),
    Step("Three days", "event", "Opened", at_least=3, unit="days", within_days=14),
    Step("Five times", "event", "Opened", at_least=5, within_days=30),
]


def steps(workspace_id: str, scope: Scope) -> dict[str, Any]:
    """Edit the steps, and build them until everybody sees the new ones; then tell readers of
    changes, count again, and ask what a sample would say."""
    now = timezone.now()
    day = now.date()
    ScoreSet.objects.filter(workspace=int(workspace_id)).update(scored_day=day)
    workspace = Workspace.objects.select_related("scores").get(pk=workspace_id)
    kind, started = kinds.get(ACTIVATION), time.monotonic()
    assert kind is not None
    assert workspace.scores is not None
    before = current(workspace.pk, scope)
    activation.request(workspace, scope, _STEPS)
    while current(workspace.pk, scope) == before:
        run_kinds([kind], timezone.now, lambda: True)
    built = time.monotonic()
    run_kinds([kind], timezone.now, lambda: False)
    stamped = time.monotonic()
    row = current(workspace.pk, scope)
    assert row is not None
    figures = activation_figures.count(row, day)
    counted = time.monotonic()
    total = figures.total
    ids = sampling.sample_subjects(workspace.scores, scope, total, min(total, 5_000)).ids
    activation_figures.preview(workspace.scores, scope, _STEPS, ids, day)
    previewed = time.monotonic()
    ((size,),) = sql.fetch("SELECT pg_total_relation_size('engagement_stepsdone')")
    return {
        "seconds": built - started,
        "stamped_seconds": stamped - started,
        "count_seconds": counted - stamped,
        "what_if_seconds": previewed - counted,
        "activated": figures.activated,
        "bytes": size,
    }


def use_events(product_id: str, first: str, count: str, rounds: str) -> dict[str, list[float]]:
    """Read the events of some users in each way, then move them, and forget the users.
    Returns milliseconds of processor time for one of them, round by round."""
    product, now = int(product_id), timezone.now()
    users = list(User.objects.filter(product=product).order_by("pk")[int(first) :][: int(count)])
    accounts = list(Account.objects.filter(product=product).order_by("pk")[: int(count)])
    score_set = ScoreSet.objects.get(product=product)
    definition = what_if.scoring_definition(score_set)
    times_of_receipt = [
        event.received_at for event in event_lookup.newest_events(product, int(count), {})
    ]
    yesterday = now.date() - timedelta(days=now.weekday() + 1)
    arrival = cycle([3_000_000_000 + int(first)])

    def move(user: User) -> None:
        at, account = now - timedelta(weeks=2), f"moved-{user.pk}"
        message = Identify(user.external_id, at, {}, account)
        with transaction.atomic():
            record([ReceivedMessage(product, next(arrival) + user.pk, now, message)])
        run_kind(REATTRIBUTE, now)

    def erase(user: User) -> None:
        forget(SubjectRef(product, SubjectScope.USER, user.external_id), now)
        run_kind(ERASE_FORGOTTEN, now)

    ways: dict[str, tuple[Callable[[Any], object], Sequence[Any]]] = {
        "a user's page": (lambda user: subject_details.events_of_user(user, None), users),
        "an account's page": (lambda own: subject_details.events_of_account(own, None), accounts),
        "search for a user": (
            lambda user: event_lookup.newest_events(product, 100, {"user": user.pk}),
            users,
        ),
        "search for a message id": (
            lambda at: event_lookup.newest_events(product, 100, {}, at=at),
            times_of_receipt,
        ),
        "late events of a backtest": (
            lambda own: late_share(score_set, definition, [(own.pk, yesterday)], date.min),
            accounts,
        ),
        "moving two weeks of a user": (move, users),
        "forgetting a user": (erase, users),
    }
    took: dict[str, list[float]] = {}
    for name, (work, subjects) in ways.items():
        # The first round warms up.
        for number in range(int(rounds) + 1):
            own = subjects[number :: int(rounds) + 1] if work in (move, erase) else subjects
            watch = Stopwatch()
            for subject in own:
                work(subject)
            times = watch.read()
            milliseconds = (times["processor_seconds"] + times["database_seconds"]) * 1000
            took.setdefault(name, []).append(milliseconds / len(own))
    return {name: times[1:] for name, times in took.items()}


def run_kind(name: str, now: datetime) -> None:
    kind = kinds.get(name)
    assert kind is not None, name
    run_kinds([kind], lambda: now, lambda: False)


COMMANDS = {
    "backtest": backtest,
    "forecast_past": forecast_past,
    "look_ahead": look_ahead,
    "create_products": create_products,
    "score_all": score_all,
    "subscribe": subscribe,
    "enable": enable,
    "suggest_weights": suggest_weights,
    "sweep": sweep,
    "compute_orders": compute_orders,
    "run_night": run_night,
    "use_events": use_events,
    "fill": fill,
    "fill_and_wake": fill_and_wake,
    "change_weight": change_weight,
    "rescore_both": rescore_both,
    "drain": drain,
    "night": night,
    "figures": figures,
    "steps": steps,
    "write_lines": write_lines,
    "import_lines": import_lines,
    "export_lines": export_lines,
    "export_files": export_files,
    "send_records": send_records,
}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    print(json.dumps(COMMANDS[command](*arguments)))  # type: ignore[operator]
