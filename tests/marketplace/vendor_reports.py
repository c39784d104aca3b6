"""What a simulated vendor's reports are printed from, and a search of the database."""

from collections.abc import Iterable
from datetime import date
from typing import Any

from django.db import connection as django_connection

from harness.marketplace.lives import Life
from harness.marketplace.records import create_site
from harness.marketplace.reports import VendorReports
from harness.marketplace.server import Simulator
from harness.marketplace.switches import USUAL, Switches
from tests.marketplace.connections import NOON

TODAY = NOON.date()


def a_life(number: int = 1, switches: Switches = USUAL, **values: Any) -> Life:
    sites = (create_site(1, number), create_site(1, number + 1_000_000))
    return Life(number, sites, switches=switches, **values)


def show(
    simulator: Simulator,
    lives: Iterable[Life],
    today: date = TODAY,
    switches: Switches = USUAL,
) -> VendorReports:
    """Have the simulator print these lives as of a day."""
    reports = VendorReports(simulator.vendor.app, lives, today, switches=switches)
    simulator.show(reports)
    return reports


def dump() -> str:
    """All rows of all tables, as text."""
    with django_connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        tables = [row[0] for row in cursor.fetchall()]
        texts = []
        for table in tables:
            cursor.execute(f"SELECT string_agg(t::text, chr(10)) FROM {table} t")
            texts.append(cursor.fetchone()[0] or "")
    return "\n".join(texts)
