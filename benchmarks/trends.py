"""How long the figures of a night take of a large product, how much memory its worker needs, and
how many bytes they keep: 1,000,000 accounts with 3,000,000 users by default. Then, how long 91 past
days take, the other jobs of the night (the use of events, cohorts, what changed), and the page of
trends; and how much is kept for all of them, and why it does not grow without end.

The daily counts of the last 30 days are generated: each day, a tenth of the users did something.
"""

import argparse
from typing import LiteralString

from psycopg import sql

from benchmarks import nights, pages
from benchmarks.reading import in_turn
from harness.command import run_command
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service

SECONDS, REPLAY_SECONDS, MEMORY_MB = 300.0, 900.0, 500.0
FILL: tuple[LiteralString, ...] = (
    """
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1, d.day + interval '9 hours'
    FROM generate_series(30, 2, -1) AS ago
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - ago::integer AS day) AS d
    CROSS JOIN engagement_user u
    JOIN engagement_eventname e ON e.product_id = %(product)s
    WHERE u.product_id = %(product)s AND random() + 0 * ago < 0.1
    """,
    """
    INSERT INTO engagement_userengagement (product_id, score_set_id, user_id, raw, raw_yesterday,
        raw_last_period, raw_yesterday_last_period, event_count, active_days, name_count,
        last_active_at)
    SELECT %(product)s, s.id, u.id, u.id %% 7, u.id %% 7, 0, 0, 1, 1, 1, now()
    FROM engagement_user u
    JOIN engagement_scoreset s ON s.product_id = %(product)s AND s.state = 'current'
    WHERE u.product_id = %(product)s
    """,
    """
    UPDATE engagement_accountengagement SET last_active_at = now() WHERE product_id = %(product)s
    """,
    "ANALYZE engagement_userengagement, engagement_accountengagement, engagement_dailycount",
)
_DAYS: LiteralString = """
    INSERT INTO trends_dayfigures (workspace_id, segment_id, day, score_set_id, accounts,
        weekly_accounts, weekly_users, account_mean, account_median, account_bands, user_bands)
    SELECT w.id, 0, (now() AT TIME ZONE 'UTC')::date - 1 - ago::integer, w.scores_id, 1000000,
           500000 + ago, 900000 - ago, 40 + ago %% 7, 35.5, array_fill(100000, ARRAY[10]),
           array_fill(300000, ARRAY[10])
    FROM engagement_workspace w, generate_series(1, 740) AS ago
    WHERE w.id = %(workspace)s
"""


# The first night of events reads all daily counts; those after it read a day.
_NEXT_NIGHT: LiteralString = """
    UPDATE engagement_usagestate SET uses_until = uses_until - 1, figures_until = figures_until - 1,
        counted_on = NULL
"""
_FIRST, _NIGHT = "first night", "night"
JOBS = (
    *((_FIRST, "count the use of events"), (_NIGHT, "count the use of events")),
    *((_NIGHT, "cohorts"), (_NIGHT, "count segments"), (_NIGHT, "what changed")),
)
# What is kept for trends, and what bounds it. A timeline keeps nothing.
BOUNDS = {
    "trends_dayfigures": "742 days of a workspace and each of its segments",
    "trends_segmentmove": "1,000 of each segment and night, for 53 weeks",
    "trends_segmentroster": "a row of each segment",
    "trends_usageday": "730 days of each event and each feature",
    "engagement_accountuse": "a row of each account and event",
    "trends_storedcohorts": "14 of each workspace",
    "trends_storedchanges": "a row of a workspace and each of its segments",
}


def other_jobs(service: Service) -> Report:
    """The jobs of a night beside that of figures."""
    database, total = service.connect(), 0.0
    for when, name in JOBS:
        progress(f"{name}, {when}.")
        if when == _NIGHT and name == JOBS[0][1]:
            database.execute(_NEXT_NIGHT)
        took = pages.run_night(service, name)
        total += took["seconds"] if when == _NIGHT and name != "count segments" else 0.0
        yield Result(f"{name}, {when}, seconds", took["seconds"])
        yield Result(f"{name}, {when}: peak memory, MB", took["peak_mb"], at_most=MEMORY_MB)
    yield Result("use of events, cohorts, and what changed in a night, seconds", total)


def sizes(service: Service) -> Report:
    database, rows = service.connect(), []
    for table, bound in BOUNDS.items():
        size = sql.SQL("SELECT count(*), pg_total_relation_size({}::text) FROM {}")
        statement = size.format(sql.Literal(table), sql.Identifier(table))
        ((number, kept_bytes),) = database.execute(statement).fetchall()
        rows.append({"kept": table, "rows": number, "MB": kept_bytes / 1e6, "at most": bound})
    yield Table("what is kept", rows)


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        created = service.create_product()
        product, workspace = created["product_id"], created["workspace_id"]
        nights.fill(service, product, options.accounts, options.users, with_active_days=False)
        progress("Making the daily counts of 30 days.")
        database = service.connect()
        for statement in FILL:
            database.execute(statement, {"product": product} if "%" in statement else None)
        database.execute(_DAYS, {"workspace": workspace})
        for name in ("a night", "91 days"):
            progress(f"The figures of {name}.")
            figures = service.run_json(
                "-m", "benchmarks.within", "figures", str(workspace), name, timeout=nights.PATIENCE
            )
            limit = SECONDS if name == "a night" else REPLAY_SECONDS
            yield Result(f"{name}, seconds", figures["seconds"], at_most=limit)
            yield Result(f"{name}: seconds of the worker's processor", figures["processor_seconds"])
            yield Result(f"{name}: peak memory, MB", figures["peak_mb"], at_most=MEMORY_MB)
            yield Result(f"{name}: bytes of figures per day", figures["bytes_per_day"])
            yield Result(f"{name}: bytes of all rosters", figures["roster_bytes"])
        yield from other_jobs(service)
        yield from sizes(service)
        person = pages.log_in(service, "web")
        page = f"/admin/engagement/workspace/{workspace}/trends/?days="
        addresses = {f"{days} days": (person.client, f"{page}{days}") for days in (30, 90, 365)}
        for name, milliseconds in in_turn(addresses, nights.ROUNDS).items():
            yield Result(f"page of {name}, seconds", milliseconds / 1000, at_most=pages.SECONDS)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, nights.arguments, measure)
