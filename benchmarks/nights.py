"""How long the night of a large product takes, how much memory its worker needs, and how many
statements it runs: 1,000,000 accounts with 3,000,000 users by default. Then, how long the lists of
accounts by the state of their activity and by alarms of habits take, in the read API and in the
admin.

The active days of 25 weeks are generated, and so are the daily counts of the last day. So the night
counts that day, loads 24 weeks, decides, and writes. The first night writes what can be told of
every account; the second, a day later, is like all others.
"""

import argparse
from typing import Any, LiteralString

from benchmarks import pages
from benchmarks.reading import in_turn
from engagement.insight_kinds import ACTIVITY_LABELS
from harness.command import run_command
from harness.http import Client, bearer
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service

# A night is no more than a small share of a day's scoring.
SECONDS, MEMORY_MB = 300.0, 300.0
PATIENCE = 3600.0
_OF_HABITS = ("users_leaving", "key_user_quiet", "breadth_narrowing")
# Times that each list is read.
ROUNDS = 7

_FILL: tuple[LiteralString, ...] = (
    """
    INSERT INTO engagement_eventname (product_id, name) VALUES (%(product)s, 'Opened')
    """,
    """
    INSERT INTO engagement_account (product_id, external_id, traits, trait_stamps, is_identified,
                                    first_seen_at, last_seen_at)
    SELECT %(product)s, 'account ' || n, '{}', '{}', true, now() - interval '400 days', now()
    FROM generate_series(1, %(accounts)s) AS n
    """,
    """
    INSERT INTO engagement_user (product_id, external_id, traits, trait_stamps, is_identified,
                                 first_seen_at, last_seen_at, account_id)
    SELECT %(product)s, 'user ' || a.id || ' ' || n, '{}', '{}', true,
           now() - interval '400 days', now(), a.id
    FROM engagement_account a, generate_series(1, %(users)s / %(accounts)s) AS n
    WHERE a.product_id = %(product)s
    """,
    """
    INSERT INTO engagement_accountengagement (product_id, score_set_id, account_id, raw,
        raw_yesterday, raw_last_period, raw_yesterday_last_period, event_count, active_days,
        name_count, active_users, total_users)
    SELECT %(product)s, %(score_set)s, id, 0, 0, 0, 0, 0, 0, 0, 0, %(users)s / %(accounts)s
    FROM engagement_account WHERE product_id = %(product)s
    """,
    # Two of ten accounts are quiet for some weeks at the end.
    """
    INSERT INTO engagement_activeday (product_id, score_set_id, account_id, day, users, hour)
    SELECT %(product)s, %(score_set)s, a.id, d.day, 1 + floor(random() * 3), 8 + a.id %% 12
    FROM generate_series(1, 175) AS ago
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - 1 - ago::integer AS day) AS d
    CROSS JOIN engagement_account a
    WHERE a.product_id = %(product)s AND extract(isodow FROM d.day) < 6
      AND random() + 0 * ago < (1 + a.id %% 12) / 24.0 AND (a.id %% 10 > 1 OR ago > a.id %% 40)
    """,
    """
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1, d.day + interval '9 hours'
    FROM generate_series(1, 0, -1) AS ago
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - ago::integer AS day) AS d
    CROSS JOIN engagement_user u
    JOIN engagement_eventname e ON e.product_id = %(product)s
    WHERE u.product_id = %(product)s AND random() < 0.2
    """,
    # Scores follow activity: accounts that are silent, and those with little, are the last ones.
    """
    UPDATE engagement_accountengagement e
    SET raw = CASE WHEN e.account_id %% 10 > 1 THEN 1 + e.account_id %% 12 * 1000
              ELSE 0 END
    WHERE e.product_id = %(product)s
    """,
    "ANALYZE engagement_user, engagement_account, engagement_dailycount, engagement_activeday",
)
# One in 50 accounts settled some weeks ago.
_SETTLED: LiteralString = """
    INSERT INTO engagement_alarm (product_id, workspace_id, account_id, signal, level, since,
        ended_on, outcome, is_stopped, is_replayed, window_days, observed, expected, dispersion, p,
        latest, details)
    SELECT a.product_id, s.workspace_id, a.id, CASE WHEN a.id %% 3 = 0 THEN 'rise' ELSE 'fall' END,
           2, current_date - 120, current_date - 29, 'settled', false, false, 28, 3, 12.5, 1.5,
           0.0001, '{}', '{}'
    FROM engagement_account a
    JOIN engagement_scoreset s ON s.product_id = a.product_id AND s.state = 'current'
    WHERE a.product_id = %(product)s AND a.id %% 50 = 7
    ON CONFLICT DO NOTHING
"""
# And one in 50 has an alarm of the weekly look, of each of its signals.
_HABITS: LiteralString = """
    INSERT INTO engagement_alarm (product_id, workspace_id, account_id, signal, level, since,
        outcome, is_stopped, is_replayed, window_days, observed, expected, dispersion, p, latest,
        details)
    SELECT a.product_id, s.workspace_id, a.id, k.signal, k.level, current_date - 9, '', false,
           false, 28, 3, 12.5, 1.5, 0.0001, '{}', k.details::jsonb
    FROM engagement_account a
    JOIN engagement_scoreset s ON s.product_id = a.product_id AND s.state = 'current'
    CROSS JOIN (VALUES
        ('leaving', 0, '{"users": [1, 2], "quiet": 2, "regular": 4, "usual_share": 0.1,
                         "p": 0.01}'),
        ('key_user', 0, '{"users": [1], "share": 0.5, "last_day": "2026-01-01", "comparable": 100,
                          "ended": 3}'),
        ('feature', 2, '{"events": []}')) AS k(signal, level, details)
    WHERE a.product_id = %(product)s AND a.id %% 50 = 9
    ON CONFLICT DO NOTHING
"""
_SCORE_SET: LiteralString = "SELECT scores_id FROM engagement_workspace WHERE product_id = %s"


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        created = service.create_product()
        product = created["product_id"]
        fill(service, product, options.accounts, options.users)
        for name in ("first", "second"):
            progress(f"The {name} night.")
            night = service.run_json(
                "-m", "benchmarks.within", "night", str(product), name, timeout=PATIENCE
            )
            yield from results(f"{name} night", night)
        yield from lists(service, created)


def lists(service: Service, product: dict[str, Any]) -> Report:
    """How long the first page of the accounts in each state takes, and with an alarm of habits."""
    database = service.connect()
    for statement in (_SETTLED, _HABITS):
        database.execute(statement, {"product": product["product_id"]})
    database.execute("ANALYZE engagement_alarm, engagement_accountengagement")
    person = pages.log_in(service, "web")
    reader = Client(person.server, headers=bearer(product["api_token"]), timeout=120)
    workspace = product["workspace_id"]
    progress("Reading lists in turn.")
    own: list[tuple[str, str]] = [("activity", state) for state in ACTIVITY_LABELS]
    own += [("insight", kind) for kind in _OF_HABITS]
    for parameter, value in own:
        query = f"{workspace}&{parameter}={value}"
        addresses = {
            "read API": (reader, f"/v2/accounts?workspace_id={query}"),
            "admin": (person.client, f"/admin/engagement/account/?workspace={query}"),
        }
        for name, milliseconds in in_turn(addresses, ROUNDS).items():
            seconds = milliseconds / 1000
            yield Result(f"{name}, {value} accounts, seconds", seconds, at_most=pages.SECONDS)


def fill(
    service: Service, product: int, accounts: int, users: int, *, with_active_days: bool = True
) -> None:
    """Give a product its accounts, users, active days, and the daily counts of two days."""
    database = service.connect()
    # An empty product has its scores at once.
    service.run_json("-m", "benchmarks.within", "score_all")
    row = database.execute(_SCORE_SET, [product]).fetchone()
    assert row is not None
    size = {"product": product, "score_set": row[0], "accounts": accounts, "users": users}
    progress(f"Making {accounts:,} accounts with {users:,} users.")
    for statement in _FILL:
        if "INTO engagement_activeday" in statement and not with_active_days:
            continue
        database.execute(statement, size if "%" in statement else None)


def results(name: str, night: dict[str, Any]) -> Report:
    yield Result(f"{name}: accounts decided", night["accounts"])
    yield Result(f"{name}: alarms open", night["alarms"])
    yield Result(f"{name}, seconds", night["seconds"], at_most=SECONDS)
    yield Result(f"{name}: seconds of the worker's processor", night["processor_seconds"])
    yield Result(f"{name}: peak memory of the worker, MB", night["peak_mb"], at_most=MEMORY_MB)
    yield Result(f"{name}: memory of the worker before, MB", night["before_mb"])
    yield Result(f"{name}: statements", night["statements"])


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accounts", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=3_000_000)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
