"""How many requests each CRM gets when the score of every account moves, with the defaults (whole
points, a move of a point, runs of changes, and a daily comparison): 100,000 accounts by default.

CRMs on this machine have a record of each account. A file links all but 1,000, which are found by
their domain. The benchmark of the workspace moves all scores: by less than a point, and by more.
``worker s`` and ``database s`` are seconds of a processor.
"""

import argparse
from collections import Counter
from contextlib import ExitStack
from typing import Any, LiteralString

from harness.command import run_command
from harness.crm.hubspot import FakeHubSpot
from harness.crm.salesforce import FakeSalesforce
from harness.crm.server import Call, FakeCrm, running
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service

PATIENCE = 3600.0
# Accounts that no file links.
MATCHES = 1_000
BATCHES = {"HubSpot": 100, "Salesforce": 200}
# What happens before each run, its kind, and by what the benchmark of the scores is multiplied.
PHASES = (
    ("everything is new", "compare", 1.0),
    ("nothing", "changes", 1.0),
    ("each score moves by less than a point", "changes", 1.005),
    ("each score moves by one point and more", "changes", 1.1),
    ("nothing, and a day is over", "compare", 1.0),
)
_FILL: tuple[LiteralString, ...] = (
    """
    INSERT INTO engagement_account (product_id, external_id, traits, trait_stamps, is_identified,
                                    first_seen_at, last_seen_at)
    SELECT %(product)s, 'account' || n, jsonb_build_object('domain', 'account' || n || '.example',
           'plan', 'plan ' || n %% 7), '{}', true, now() - interval '400 days', now()
    FROM generate_series(1, %(accounts)s) AS n
    """,
    # Scores of 20 to 80 points.
    """
    INSERT INTO engagement_accountengagement (product_id, score_set_id, account_id, raw,
        raw_yesterday, raw_last_period, raw_yesterday_last_period, event_count, active_days,
        name_count, active_users, total_users)
    SELECT %(product)s, w.scores_id, a.id, -1000000 * log(1 - (20 + a.id %% 60) / 100.0), 0, 0, 0,
           0, 0, 0, 0, 0
    FROM engagement_account a JOIN engagement_workspace w ON w.product_id = a.product_id
    WHERE a.product_id = %(product)s
    """,
    "UPDATE engagement_scoreset SET account_benchmark = 1000000 WHERE product_id = %(product)s",
    "ANALYZE engagement_account, engagement_accountengagement",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accounts", type=int, default=100_000)
    parser.add_argument("--crm", choices=list(BATCHES), help="only this one")


def measure(options: argparse.Namespace) -> Report:
    crms: dict[str, FakeCrm] = {"HubSpot": FakeHubSpot(), "Salesforce": FakeSalesforce()}
    rows = []
    with temporary_service() as service, ExitStack() as stack:
        product = service.create_product()["product_id"]
        service.run_json("-m", "benchmarks.within", "score_all")
        database = service.connect()
        for statement in _FILL:
            values = {"product": product, "accounts": options.accounts}
            database.execute(statement, values if "%(" in statement else None)
        for name, crm in crms.items():
            if options.crm not in (None, name):
                continue
            stack.enter_context(running(crm))
            links = _records(crm, options.accounts)
            (service.folder / "links.csv").write_text("\n".join(links))
            for what, kind, factor in PHASES:
                progress(f"{name}: {what}.")
                row = _run(service, crm, name, product, kind, factor)
                rows.append({"CRM": name, "what happened": what, **row})
            errors = _count_wrong(service, crm, product)
            yield Result(f"{name}: records with a wrong score", errors, must_be=0)
            yield Result(f"{name}: writes that changed nothing", crm.idle_writes, must_be=0)
            yield Result(f"{name}: records created", len(crm.created), must_be=0)
            moved = rows[-2]["write"]
            bar = -(-options.accounts // BATCHES[name])
            yield Result(f"{name}: requests to write every score", moved, at_most=bar)
    yield Table("requests", rows)


def _records(crm: FakeCrm, accounts: int) -> list[str]:
    """Make a record of each account; return the lines of the file of links."""
    lines = []
    site = "domain" if isinstance(crm, FakeHubSpot) else "Website"
    for number in range(1, accounts + 1):
        is_found = number <= MATCHES
        id = crm.add(**({site: f"account{number}.example"} if is_found else {}))  # type: ignore[attr-defined]
        if not is_found:
            lines.append(f"account{number},{id}")
    return lines


def _run(
    service: Service, crm: FakeCrm, name: str, product: int, kind: str, factor: float
) -> dict[str, Any]:
    crm.calls.clear()
    arguments = (name.lower(), str(product), crm.url, kind, str(factor))
    row = service.run_json("-m", "benchmarks.within", "send_records", *arguments, timeout=PATIENCE)
    kinds = Counter(_kind(call) for call in crm.calls)
    each = {kind: kinds[kind] for kind in ("find", "read", "write", "session")}
    return {"records written": row["updated"], "requests": kinds.total() - kinds["fields"], **each,
            "seconds": row["seconds"], "worker s": row["processor_seconds"],
            "database s": row["database_seconds"]}  # fmt: skip


def _kind(call: Call) -> str:
    path = call.path.partition("?")[0]
    if path.endswith("/token"):
        return "session"
    if path.endswith(("/search", "/query")):
        return "find"
    if path.endswith(("/describe", "/companies")):
        return "fields"
    return "read" if path.endswith(("/read", "/sobjects/Account")) else "write"


def _count_wrong(service: Service, crm: FakeCrm, product: int) -> int:
    """Records whose score is not what the service shows."""
    statement = """
        SELECT l.remote_id, floor(0.5 + round(
            (100 * (1 - 10 ^ (-e.raw / s.account_benchmark)))::numeric, 1))
        FROM destinations_recordlink l
        JOIN engagement_accountengagement e ON e.account_id = l.subject_id
        JOIN engagement_scoreset s ON s.id = e.score_set_id
        WHERE e.product_id = %s
    """
    scores = dict(service.connect().execute(statement, (product,)).fetchall())
    field = "eds_score" if isinstance(crm, FakeHubSpot) else "EDS_Score__c"
    return sum(
        id not in scores or float(record.get(field, -1)) != float(scores[id])
        for id, record in crm.records.items()
    )


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
