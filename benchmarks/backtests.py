"""How long the backtest of a large product takes, how much memory it needs, and how many statements
it runs: 1,000,000 accounts, 3,000 renewals, and 400 days by default; how long somebody waits for
what a change of weights would have predicted; and how long the page takes that shows a backtest
with suggested weights.

Three users of each account with a renewal, and of each account of the sample that gives the
benchmarks, have their daily counts of all days in full. Any other account has a user with four
days: none of its counts is read. No benchmark is stored, so all of them are computed.
"""

import argparse
from statistics import median
from typing import LiteralString

from benchmarks.pages import log_in
from harness.command import run_command
from harness.processes import Failed
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service

# In the background; and while somebody waits.
SECONDS, MEMORY_MB = 10.0, 300.0
EFFECT_SECONDS, PAGE_SECONDS = 2.0, 0.3
PAGE_ROUNDS = 20
PATIENCE = 1200.0
SAMPLE = 1_000

_FILL: tuple[LiteralString, ...] = (
    """
    INSERT INTO engagement_eventname (product_id, name)
    SELECT %(product)s, name FROM unnest(ARRAY['Opened', 'Shared', 'Paid', 'Invited']) AS name
    """,
    """
    INSERT INTO engagement_account (product_id, external_id, traits, trait_stamps, is_identified,
                                    first_seen_at, last_seen_at)
    SELECT %(product)s, 'account ' || n, '{}', '{}', true, now() - interval '400 days', now()
    FROM generate_series(1, %(accounts)s) AS n
    """,
    """
    INSERT INTO engagement_accountengagement (product_id, score_set_id, account_id, raw,
        raw_yesterday, raw_last_period, raw_yesterday_last_period, event_count, active_days,
        name_count, active_users, total_users, last_active_at)
    SELECT %(product)s, %(score_set)s, id, 1, 1, 1, 1, 1, 1, 1, 1, 1, now() - interval '1 day'
    FROM engagement_account WHERE product_id = %(product)s
    """,
    # Renewals of the last 300 days, of accounts all over the product. Who is less active leaves
    # more often.
    """
    INSERT INTO outcomes_licenseoutcome (product_id, license, kind, day, cloud_id, began_on,
        known_on, decided_on, result, exclusion)
    SELECT %(product)s, 'license ' || n, 'renewal', day,
        'account ' || n * (%(accounts)s / %(outcomes)s), day - 365, day, day,
        CASE WHEN random() < 0.3 - 0.05 * (n %% 5) THEN 'churned' ELSE 'renewed' END, ''
    FROM generate_series(1, %(outcomes)s) AS n
    CROSS JOIN LATERAL (
        SELECT (now() AT TIME ZONE 'UTC')::date - 1 - floor(random() * 300 + 0 * n)::integer
            AS day) AS d
    """,
    "INSERT INTO outcomes_licenserevision (product_id, revision) VALUES (%(product)s, 1)",
    """
    CREATE TABLE lively AS
    SELECT a.id, COALESCE(right(o.license, -8)::bigint %% 5, a.id %% 5) AS level
    FROM engagement_account a
    LEFT JOIN outcomes_licenseoutcome o
        ON o.product_id = a.product_id AND o.cloud_id = a.external_id
    WHERE a.product_id = %(product)s AND (o.license IS NOT NULL OR a.id IN (
        SELECT id FROM engagement_account WHERE product_id = %(product)s
        ORDER BY hashint8(id), id LIMIT %(sample)s))
    """,
    """
    INSERT INTO engagement_user (product_id, external_id, traits, trait_stamps, is_identified,
                                 first_seen_at, last_seen_at, account_id)
    SELECT %(product)s, 'user ' || a.id || ' ' || n, '{}', '{}', true,
           now() - interval '400 days', now(), a.id
    FROM engagement_account a, generate_series(1, 3) AS n
    WHERE a.product_id = %(product)s AND (n = 1 OR a.id IN (SELECT id FROM lively))
    """,
    # The days in their order, as they come.
    """
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1 + floor(random() * 5),
           d.day + interval '9 hours'
    FROM generate_series(400, 0, -1) AS ago
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - ago::integer AS day) AS d
    CROSS JOIN lively
    JOIN engagement_user u ON u.account_id = lively.id AND u.product_id = %(product)s
    JOIN engagement_eventname e ON e.product_id = %(product)s
    WHERE random() < 0.1 + 0.1 * lively.level + 0 * ago
    """,
    """
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1, d.day + interval '9 hours'
    FROM generate_series(390, 0, -100) AS ago
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - ago::integer AS day) AS d
    CROSS JOIN engagement_user u
    JOIN engagement_eventname e ON e.product_id = %(product)s AND e.name = 'Opened'
    WHERE u.product_id = %(product)s AND NOT EXISTS (SELECT FROM lively WHERE id = u.account_id)
    """,
    "DROP TABLE lively",
    """
    ANALYZE engagement_user, engagement_account, engagement_dailycount,
        engagement_accountengagement, outcomes_licenseoutcome
    """,
)
_SCORE_SET: LiteralString = "SELECT scores_id FROM engagement_workspace WHERE product_id = %s"
_COUNTS: LiteralString = "SELECT count(*) FROM engagement_dailycount WHERE product_id = %s"


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        product = fill(service, options.accounts, options.outcomes)
        row = service.connect().execute(_COUNTS, [product]).fetchone()
        assert row is not None
        yield Result("daily counts", row[0])
        for name in options.definitions:
            own = service.run_json(
                "-m", "benchmarks.within", "backtest", str(product), name, timeout=PATIENCE
            )
            yield Result(f"{name}: outcomes counted", own["outcomes"])
            yield Result(f"{name}, seconds", own["seconds"], at_most=SECONDS)
            yield Result(f"{name}: processor seconds of the worker", own["processor_seconds"])
            yield Result(f"{name}: processor seconds of PostgreSQL", own["database_seconds"])
            yield Result(
                f"{name}: peak memory of the worker, MB", own["peak_mb"], at_most=MEMORY_MB
            )
            yield Result(f"{name}: memory of the worker before, MB", own["before_mb"])
            yield Result(f"{name}: statements", own["statements"])
            yield Result(
                f"{name}: effect of a change, seconds",
                own["effect_seconds"],
                at_most=EFFECT_SECONDS,
            )
        own = service.run_json(
            "-m", "benchmarks.within", "suggest_weights", str(product), timeout=PATIENCE
        )
        yield Result("suggested weights, seconds", own["seconds"])
        person = log_in(service, "web")
        if b"How weights are suggested" not in person.client.read(own["page"]):
            raise Failed("The page shows no suggested weights.")
        seconds = [person.client.seconds(own["page"]) for _ in range(PAGE_ROUNDS)]
        yield Result("the page, seconds", median(seconds))
        yield Result("the page when it took longest, seconds", max(seconds), at_most=PAGE_SECONDS)


def fill(service: Service, accounts: int, outcomes: int) -> int:
    """Give a product its accounts, daily counts, and renewals; its id."""
    product: int = service.create_product()["product_id"]
    database = service.connect()
    # An empty product has its scores at once.
    service.run_json("-m", "benchmarks.within", "score_all")
    row = database.execute(_SCORE_SET, [product]).fetchone()
    assert row is not None
    size = {
        "product": product,
        "score_set": row[0],
        "accounts": accounts,
        "outcomes": outcomes,
        "sample": SAMPLE,
    }
    progress(f"Making {accounts:,} accounts with {outcomes:,} renewals.")
    for statement in _FILL:
        database.execute(statement, size if "%" in statement else None)
    return product


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accounts", type=int, default=1_000_000)
    parser.add_argument("--outcomes", type=int, default=3_000)
    parser.add_argument("--definitions", nargs="+", default=["7 days", "30 days", "half-life"])


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
