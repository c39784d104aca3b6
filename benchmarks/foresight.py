"""How long chances and forecasts of a large product take in the background, and how long people
wait for their pages: 1,000,000 accounts with 5,000 running evaluations and 30,000 renewals ahead by
default. Then the same product without licenses: a chance of each active account, and how many
accounts count as changed after the next night.

Each account has a user who is active on some of the last 30 days, and three where a license is
decided. Whoever does more renews and buys more often.
"""

import argparse
from statistics import median
from typing import LiteralString

from benchmarks.pages import log_in
from harness.command import run_command
from harness.http import Client
from harness.processes import Failed
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service

PAGE_SECONDS, PAGE_ROUNDS = 0.3, 20
MEMORY_MB = 400.0
PATIENCE = 3600.0

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
    SELECT %(product)s, %(score_set)s, id, id %% 90, 1, 1, 1, 1, 1, 1, 1, 1,
           now() - interval '1 day'
    FROM engagement_account WHERE product_id = %(product)s
    """,
    # Of accounts all over the product: evaluations that are over and that go on, and renewals of
    # the last 300 days and of the next 120.
    """
    CREATE TABLE decided AS
    SELECT n, 'account ' || 1 + (n * 7919::bigint) %% %(accounts)s AS account, n %% 5 AS level,
        CASE WHEN n <= %(past)s + %(running)s THEN 'evaluation' ELSE 'renewal' END AS kind,
        CASE WHEN n <= %(past)s THEN -31 - n %% 270
             WHEN n <= %(past)s + %(running)s THEN 1 + n %% 28
             WHEN n <= 2 * %(past)s + %(running)s THEN -1 - n %% 300
             ELSE n %% 120 END AS ends
    FROM generate_series(1, 2 * %(past)s + %(running)s + %(ahead)s) AS n
    """,
    """
    INSERT INTO outcomes_licenseoutcome (product_id, license, kind, day, cloud_id, began_on,
        known_on, decided_on, result, exclusion, seats, cents)
    SELECT %(product)s, 'license ' || n, kind, day, account,
        day - CASE kind WHEN 'renewal' THEN 365 ELSE 30 END,
        CASE WHEN ends < 0 THEN day END, CASE WHEN ends < 0 THEN day END,
        CASE WHEN ends >= 0 THEN 'open'
             WHEN kind = 'renewal' THEN
                CASE WHEN random() < 0.3 - 0.05 * level THEN 'churned' ELSE 'renewed' END
             ELSE CASE WHEN random() < 0.1 + 0.15 * level THEN 'bought' ELSE 'not_bought' END END,
        CASE WHEN ends < 0 THEN '' ELSE 'open' END,
        1 + floor(exp(random() * 6)), 100 * (1 + floor(exp(random() * 9)))
    FROM decided
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date + ends::integer AS day) AS d
    """,
    "INSERT INTO outcomes_licenserevision (product_id, revision) VALUES (%(product)s, 1)",
    """
    INSERT INTO engagement_user (product_id, external_id, traits, trait_stamps, is_identified,
                                 first_seen_at, last_seen_at, account_id)
    SELECT %(product)s, 'user ' || a.id || ' ' || n, '{}', '{}', true,
           now() - interval '400 days', now(), a.id
    FROM engagement_account a, generate_series(1, 3) AS n
    WHERE a.product_id = %(product)s
      AND (n = 1 OR a.external_id IN (SELECT account FROM decided))
    """,
    # The days in their order, as they come.
    """
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1 + floor(random() * 5),
           d.day + interval '9 hours'
    FROM generate_series(400, 0, -1) AS ago
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - ago::integer AS day) AS d
    CROSS JOIN decided
    JOIN engagement_account a ON a.product_id = %(product)s AND a.external_id = decided.account
    JOIN engagement_user u ON u.account_id = a.id AND u.product_id = %(product)s
    JOIN engagement_eventname e ON e.product_id = %(product)s
    WHERE (ago < 40 OR ends < 0) AND random() < 0.02 + 0.03 * decided.level + 0 * ago
    ON CONFLICT DO NOTHING
    """,
    """
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1, d.day + interval '9 hours'
    FROM generate_series(29, 0, -1) AS ago
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - ago::integer AS day) AS d
    CROSS JOIN engagement_user u
    JOIN engagement_eventname e ON e.product_id = %(product)s AND e.name = 'Opened'
    WHERE u.product_id = %(product)s AND random() < 0.3 / (1 + u.id %% 7) + 0 * ago
    ON CONFLICT DO NOTHING
    """,
    # Some accounts had been active before, and were silent later.
    """
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1, d.day + interval '9 hours'
    FROM generate_series(300, 60, -30) AS ago
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - ago::integer AS day) AS d
    CROSS JOIN engagement_user u
    JOIN engagement_eventname e ON e.product_id = %(product)s AND e.name = 'Shared'
    WHERE u.product_id = %(product)s AND random() < 0.3 + 0 * ago
    ON CONFLICT DO NOTHING
    """,
    "DROP TABLE decided",
    """
    ANALYZE engagement_user, engagement_account, engagement_dailycount,
        engagement_accountengagement
    """,
)
_SCORE_SET: LiteralString = "SELECT scores_id FROM engagement_workspace WHERE product_id = %s"
_COUNTS: LiteralString = "SELECT count(*) FROM engagement_dailycount WHERE product_id = %s"
# The forecast of a month that is over, of which nothing was known when it began.
_PAST: LiteralString = """
    UPDATE outcomes_storedforecast SET chances = ARRAY(SELECT 0.85 FROM unnest(chances))
    WHERE product_id = %s AND stays
"""


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        product = fill(service, options)
        database = service.connect()
        row = database.execute(_COUNTS, [product]).fetchone()
        assert row is not None
        yield Result("daily counts", row[0])
        yield from _look_results(service, product, "licenses", "now")
        own = service.run_json(
            "-m", "benchmarks.within", "forecast_past", str(product), timeout=PATIENCE
        )
        database.execute(_PAST, [product])
        yield from _look_results(service, product, "licenses, once more", "now")
        person = log_in(service, "web")
        for name, path, text in own["pages"]:
            if text.encode() not in person.client.read(path):
                raise Failed(f"The page of {name} does not have: {text}")
            yield from _page_results(person.client, name, path)
        database.execute("DELETE FROM outcomes_licenserevision WHERE product_id = %s", [product])
        for day in ("now", "tomorrow"):
            yield from _look_results(service, product, f"no licenses, {day}", day)
        # The server has closed the connection meanwhile.
        person.client.close()
        path = next(path for name, path, _ in own["pages"] if name == "evaluations")
        # Right after the night that wrote all its rows.
        first = round(person.client.seconds(path), 3)
        yield Result("likely to go quiet, the first time, seconds", first)
        yield from _page_results(person.client, "likely to go quiet", path)


def _page_results(client: Client, name: str, path: str) -> Report:
    seconds = [client.seconds(path) for _ in range(PAGE_ROUNDS)]
    yield Result(f"{name}, seconds", round(median(seconds), 3))
    yield Result(f"{name} when it took longest", round(max(seconds), 3), at_most=PAGE_SECONDS)


def _look_results(service: Service, product: int, name: str, day: str) -> Report:
    progress(f"Looking at chances: {name}.")
    own = service.run_json(
        "-m", "benchmarks.within", "look_ahead", str(product), day, timeout=PATIENCE
    )
    for figure in ("seconds", "processor_seconds", "database_seconds", "chances", "changed"):
        yield Result(f"{name}: {figure.replace('_', ' ')}", own[figure])
    yield Result(f"{name}: peak memory, MB", own["peak_mb"], at_most=MEMORY_MB)


def fill(service: Service, options: argparse.Namespace) -> int:
    """Give a product its accounts, daily counts, and licenses; its id."""
    product: int = service.create_product()["product_id"]
    database = service.connect()
    # An empty product has its scores at once.
    service.run_json("-m", "benchmarks.within", "score_all")
    row = database.execute(_SCORE_SET, [product]).fetchone()
    assert row is not None
    size = {
        "product": product,
        "score_set": row[0],
        "accounts": options.accounts,
        "past": options.outcomes,
        "running": options.running,
        "ahead": options.ahead,
    }
    progress(f"Making {options.accounts:,} accounts.")
    for statement in _FILL:
        database.execute(statement, size if "%" in statement else None)
    return product


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accounts", type=int, default=1_000_000)
    parser.add_argument("--outcomes", type=int, default=3_000, help="past ones of each kind")
    parser.add_argument("--running", type=int, default=5_000, help="evaluations")
    parser.add_argument("--ahead", type=int, default=30_000, help="renewals")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
