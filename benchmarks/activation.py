"""How long edited steps take until everybody sees who has done them: 1,000,000 accounts with
3,000,000 users by default, first seen in the last 60 days, with daily counts of the last 30. Then
the what-if of one sample, the page, and lists of who is stuck.
"""

import argparse
from functools import partial
from typing import Any, LiteralString

from benchmarks import nights, pages, trends
from benchmarks.reading import in_turn, keep, kept_service
from harness.command import run_command
from harness.report import Report, Result, progress
from harness.service import Service

SECONDS = 60.0
_FIRST_SEEN: tuple[LiteralString, ...] = (
    "UPDATE engagement_account SET first_seen_at = now() - id %% 60 * interval '1 day' "
    "WHERE product_id = %(product)s",
    "UPDATE engagement_user SET first_seen_at = now() - id %% 60 * interval '1 day' "
    "WHERE product_id = %(product)s",
    "VACUUM ANALYZE engagement_account, engagement_user",
)


def fill(service: Service, accounts: int, users: int) -> dict[str, Any]:
    created = service.create_product()
    nights.fill(service, created["product_id"], accounts, users, with_active_days=False)
    progress("Making the daily counts of 30 days.")
    database, product = service.connect(), {"product": created["product_id"]}
    for statement in (*trends.FILL, *_FIRST_SEEN):
        database.execute(statement, product if "%" in statement else None)
    return created


def measure(options: argparse.Namespace) -> Report:
    make = partial(fill, accounts=options.accounts, users=options.users)
    with kept_service(options.keep, make) as (service, created):
        workspace = created["workspace_id"]
        for scope in ("account", "user"):
            progress(f"The steps of {scope}s.")
            before = service.processor_seconds("")
            figures = service.run_json(
                "-m", "benchmarks.within", "steps", str(workspace), scope, timeout=nights.PATIENCE
            )
            bar = SECONDS if scope == "account" else None
            yield Result(f"steps of {scope}s, seconds", figures["seconds"], at_most=bar)
            yield Result(f"steps of {scope}s: with stamps, seconds", figures["stamped_seconds"])
            # A busy machine takes several times as long.
            took = service.processor_seconds("") - before
            yield Result(f"steps of {scope}s: seconds of PostgreSQL's processor, in all", took)
            yield Result(f"steps of {scope}s: counting again, seconds", figures["count_seconds"])
            yield Result(f"steps of {scope}s: activated", figures["activated"])
            yield Result(f"steps of {scope}s: what-if, seconds", figures["what_if_seconds"])
            yield Result(f"steps of {scope}s: bytes", figures["bytes"])
        person = pages.log_in(service, "web")
        accounts = f"/admin/engagement/account/?workspace={workspace}&activation="
        page = f"/admin/engagement/workspace/{workspace}/activation/"
        addresses = {
            "page": (person.client, page),
            **{
                f"list {state}": (person.client, f"{accounts}{state}")
                for state in ("activated", "on_the_way", "stuck", "stuck-Three+days")
            },
        }
        for name, milliseconds in in_turn(addresses, nights.ROUNDS).items():
            yield Result(f"{name}, seconds", milliseconds / 1000, at_most=pages.SECONDS)


def arguments(parser: argparse.ArgumentParser) -> None:
    nights.arguments(parser)
    keep(parser)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
