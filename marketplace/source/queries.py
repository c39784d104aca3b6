"""Which lists of licenses a sync reads, and in which parts."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Final

from marketplace.models import Connection, Report, SyncRun
from marketplace.source.client import LicenseQuery, MarketplaceClient
from marketplace.source.errors import MarketplaceBadRequest

# Special clouds, whose licenses come in lists of their own. Source: public clients of the API.
BOUNDARIES = ("fedramp_moderate", "isolated_cloud")
# Data insights exist for licenses that started on this day or later.
FIRST_DAY_OF_INSIGHTS: Final = date(2018, 7, 1)
# The length of a part where lists are read by start date.
MONTHS_PER_PART: Final = 3

Finding = SyncRun.Finding


def probe(client: MarketplaceClient, developer_id: str, product_id: str) -> None:
    """Read a page of licenses, to see whether reports are available. Raises what the client
    raises."""
    query = LicenseQuery(product_id)
    try:
        client.licenses(developer_id, query, 0)
    except MarketplaceBadRequest:
        client.licenses(developer_id, replace(query, first_day=FIRST_DAY_OF_INSIGHTS), 0)


def queries_for(run: SyncRun, connection: Connection) -> list[LicenseQuery]:
    """The lists that the run reads, or their parts, one after the other.

    A full sync reads all lists. A sync of recent changes reads those in which the last full sync
    found licenses, and the always free licenses unless the marketplace rejected that list.
    """
    lists = _lists(run, connection)
    if (run.trial_report or run.report) == Report.DATES:
        return [part for query in lists for part in quarters(query, run.requested_at.date())]
    if run.splits_insights:
        return [part for query in lists for part in halves(query)]
    return lists


def _lists(run: SyncRun, connection: Connection) -> list[LicenseQuery]:
    make_query = partial(
        LicenseQuery,
        str(connection.app_product_id),
        updated_since=run.since,
        includes_staff=connection.includes_staff_licenses,
    )
    queries = [
        make_query(),
        make_query(always_free=True),
        *(make_query(boundary=boundary) for boundary in BOUNDARIES),
    ]
    if run.kind != SyncRun.Kind.RECENT or connection.lists is None:
        return queries
    findings: dict[str, str] = {**connection.lists, "all": Finding.USED}
    if findings.get("always_free") == Finding.EMPTY:
        # The first such license may come any day.
        findings["always_free"] = Finding.USED
    left_out = {Finding.REFUSED, Finding.EMPTY}
    return [query for query in queries if findings.get(query.list_name) not in left_out]


def halves(query: LicenseQuery) -> tuple[LicenseQuery, LicenseQuery]:
    """The licenses from before data insights, and the others."""
    before = FIRST_DAY_OF_INSIGHTS - timedelta(days=1)
    return (
        replace(query, last_day=before, with_insights=False),
        replace(query, first_day=FIRST_DAY_OF_INSIGHTS),
    )


def quarters(query: LicenseQuery, today: date) -> Iterator[LicenseQuery]:
    """The licenses from before data insights, of each quarter since, and of the future."""
    older, _ = halves(query)
    yield older
    first = FIRST_DAY_OF_INSIGHTS
    while first <= today:
        months = first.month - 1 + MONTHS_PER_PART
        next_first = date(first.year + months // 12, months % 12 + 1, 1)
        yield replace(query, first_day=first, last_day=next_first - timedelta(days=1))
        first = next_first
    yield replace(query, first_day=first)
