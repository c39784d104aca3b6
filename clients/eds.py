#!/usr/bin/env python3
"""Reads the engagement data service from scripts. Needs nothing but Python 3.10 and requests.

    export EDS_URL=https://eds.example.com EDS_TOKEN=eds_…
    eds.py list accounts --top 10
    eds.py list accounts sort=score min_score=50 trait=plan:pro --table
    eds.py get accounts 17 expand=traits,history
    eds.py list timeline --account 17 kinds=alarm,license
    eds.py list timeline --user 4
    eds.py export users expand=traits traits=plan,role > users.jsonl
    eds.py list backtests
    eds.py list chances order=day
    eds.py list forecasts
    eds.py list changes period=day
    eds.py list trends interval=week
    eds.py list features
    eds.py list cohorts subjects=user by=plan
    eds.py list activation subjects=user
    eds.py watch accounts --state accounts.state --interval 60

Parameters of the read API follow the resource as name=value. Each line of output is a JSON object,
or a row of a table with --table. It waits as long as the service's rate limit says.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

# Of one account, or of one user.
OF_SUBJECT = ("timeline",)
# Of one workspace: lists without single records.
OF_WORKSPACE = (
    *("activation", "backtests", "chances", "changes", "cohorts"),
    *("features", "forecasts", "trends"),
)
RESOURCES = ("workspaces", "accounts", "users", "segments")
OF_COMMAND = {"get": RESOURCES, "watch": ("accounts", "users")}
LARGEST_PAGE = {"accounts": 500, "users": 500}
TIMEOUT_SECONDS = 60
ATTEMPTS = 6
TABLE = (
    *("id", "tracking_id", "name", "email", "score", "score_change", "last_active_at"),
    *("day", "kind", "first_day", "last_day", "segment_id", "text"),
)

Record = dict[str, Any]


class ApiError(Exception):
    """The service refused the request, or did not respond."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class Client:
    """Reads pages and records with one token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._wait_until = 0.0

    def read(self, address: str, parameters: Sequence[tuple[str, str]] = ()) -> Record:
        """The body of a response. Repeats a request that the service could not serve yet."""
        if address.startswith("/"):
            address = self.url + address
        for attempt in range(ATTEMPTS):
            time.sleep(max(0.0, self._wait_until - time.monotonic()))
            try:
                response = self._session.get(
                    address, params=list(parameters), timeout=TIMEOUT_SECONDS
                )
            except requests.RequestException as error:
                problem = f"No response: {type(error).__name__}."
                self._wait(2.0**attempt)
                continue
            if response.status_code not in (429, 503):
                self._heed_limit(response.headers.get("RateLimit", ""))
                return _body(response)
            problem = f"The service returned {response.status_code} {ATTEMPTS} times."
            self._wait(float(response.headers.get("Retry-After", 2**attempt)))
        raise ApiError(problem)

    def pages(self, address: str, parameters: Sequence[tuple[str, str]]) -> Iterator[Record]:
        """The pages of a list, from the first to the last."""
        page = self.read(address, parameters)
        yield page
        while following := page["_links"].get("next"):
            page = self.read(following)
            yield page

    def workspace(self) -> str:
        """The ID of the token's first workspace."""
        for row in self.read("/v2/workspaces", [("limit", "1")])["data"]:
            return str(row["id"])
        raise ApiError("The token has no workspace.")

    def _heed_limit(self, header: str) -> None:
        """Wait for the next minute if nothing is left of this one: ``"minute";r=0;t=12``."""
        fields = dict(field.split("=", 1) for field in header.split(";") if "=" in field)
        if fields.get("r") == "0":
            self._wait(float(fields.get("t", 1)))

    def _wait(self, seconds: float) -> None:
        self._wait_until = time.monotonic() + seconds


def _body(response: requests.Response) -> Record:
    try:
        body: Record = response.json()
    except ValueError:
        raise ApiError(f"The service returned {response.status_code} without JSON.") from None
    if error := body.get("error"):
        raise ApiError(f"{error['message']} ({error['code']})", error["code"])
    return body


# --- Commands -------------------------------------------------------------------------------


def list_records(client: Client, options: argparse.Namespace) -> Iterator[Record]:
    """Up to ``--top`` records, or all. Of changes and activation, there is one record."""
    if options.resource in ("activation", "changes"):
        yield client.read(options.path, options.parameters)["data"]
        return
    remaining = options.top
    largest = LARGEST_PAGE.get(options.resource, 100)
    limit = ("limit", str(min(largest, remaining) if remaining else largest))
    for page in client.pages(options.path, [*options.parameters, limit]):
        for record in page["data"]:
            yield record
            remaining -= 1
            if remaining == 0:
                return


def get_record(client: Client, options: argparse.Namespace) -> Iterator[Record]:
    yield client.read(f"{options.path}/{options.id}", options.parameters)["data"]


def watch(client: Client, options: argparse.Namespace) -> Iterator[Record]:
    """``{"changed": {…}}`` and ``{"deleted": 17}``, for ever, or once with ``--once``.

    After an edit of the workspace everything is read again, after ``{"restarted": true}``.
    """
    state = Path(options.state) if options.state else None
    start = [*options.parameters, ("limit", "500"), ("changed_since", "start")]
    address = state.read_text().strip() if state and state.exists() else ""
    while True:
        try:
            pages = client.pages(address or options.path, [] if address else start)
            for page in pages:
                yield from ({"deleted": id} for id in page["deleted"])
                yield from ({"changed": record} for record in page["data"])
                address = page["_links"].get("changes", address)
        except ApiError as error:
            if error.code != "invalid_cursor" or not address:
                raise
            address = ""
            yield {"restarted": True}
            continue
        if state:
            sys.stdout.flush()
            _replace(state, address)
        if options.once:
            return
        time.sleep(options.interval)


def _replace(path: Path, text: str) -> None:
    """Write the file so that a crash leaves the old one or the new one."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text + "\n")
    temporary.replace(path)


COMMANDS = {"list": list_records, "get": get_record, "export": list_records, "watch": watch}


# --- Output ---------------------------------------------------------------------------------


def print_lines(records: Iterator[Record]) -> None:
    for record in records:
        print(json.dumps(record, ensure_ascii=False), flush=sys.stdout.isatty())


def print_table(records: Iterator[Record]) -> None:
    rows = list(records)
    columns = [name for name in TABLE if any(name in row for row in rows)] or ["id"]
    cells = [columns] + [[_cell(row.get(name)) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


# --- Command line ---------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    about, _, text = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, help in (
        ("list", "records as JSON lines, the highest score first"),
        ("get", "one record with its metrics"),
        ("export", "all records"),
        ("watch", "what changes from now on, after all records"),
    ):
        command = commands.add_parser(name, help=help)
        command.add_argument(
            "resource", choices=OF_COMMAND.get(name, RESOURCES + OF_WORKSPACE + OF_SUBJECT)
        )
        if name == "get":
            command.add_argument("id", type=int)
        command.add_argument("parameters", nargs="*", type=_pair, metavar="name=value")
        command.add_argument("--workspace", default=os.environ.get("EDS_WORKSPACE"))
        if name in ("list", "export"):
            command.add_argument("--account", type=int, help="the ID of the account")
            command.add_argument("--user", type=int, help="the ID of the user")
        command.add_argument("--table", action="store_true", help="a table instead of JSON lines")
        if name == "list":
            command.add_argument("--top", type=int, default=0, help="at most this many records")
        if name == "watch":
            command.add_argument("--state", help="a file that remembers where the last run ended")
            command.add_argument("--interval", type=float, default=60.0, help="seconds")
            command.add_argument("--once", action="store_true", help="stop at the end")
    options = parser.parse_args(arguments)
    if not hasattr(options, "top"):
        options.top = 0
    return options


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is not name=value")
    return name, value


def main(arguments: Sequence[str] | None = None, env: Mapping[str, str] = os.environ) -> int:
    options = parse(arguments)
    missing = [name for name in ("EDS_URL", "EDS_TOKEN") if not env.get(name)]
    if missing:
        print(f"Set {' and '.join(missing)}.", file=sys.stderr)
        return 2
    client = Client(env["EDS_URL"], env["EDS_TOKEN"])
    try:
        options.path = f"/v2/{options.resource}"
        if options.resource in OF_WORKSPACE:
            workspace = options.workspace or client.workspace()
            options.path = f"/v2/workspaces/{workspace}/{options.resource}"
        elif options.resource in OF_SUBJECT and (options.account is None) == (options.user is None):
            raise ApiError(f"Either --account or --user is required for {options.resource}.")
        elif options.resource in OF_SUBJECT:
            about = (
                f"accounts/{options.account}" if options.user is None else f"users/{options.user}"
            )
            options.path = f"/v2/{about}/{options.resource}"
            options.parameters.append(("workspace_id", options.workspace or client.workspace()))
        elif options.resource != "workspaces":
            options.parameters.append(("workspace_id", options.workspace or client.workspace()))
        records = COMMANDS[options.command](client, options)
        (print_table if options.table else print_lines)(records)
    except ApiError as error:
        print(error, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
