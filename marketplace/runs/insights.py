"""Notices a marketplace that hides licenses or data insights in a list without dates.

Data insights exist for licenses that started in July 2018 or later. A marketplace may reject a
request for them without a start date (400). It may also leave out the older licenses, or all
insights, without a word. So a full sync compares what it has read with the beginnings of the two
halves of the list, which two requests bring.
"""

from marketplace import texts
from marketplace.licenses import conversion, duplicates
from marketplace.licenses.conversion import ParsedLicense
from marketplace.models import Report, SyncRun
from marketplace.runs.license_import import skip_suppressed
from marketplace.runs.reading import RunLists
from marketplace.source import queries
from marketplace.source.client import PAGE_SIZE, LicenseQuery
from marketplace.source.errors import CredentialsRejected, MarketplaceError

# The oldest licenses may all be of servers, without a Cloud ID.
MAX_PAGES = 20


class InsightsHidden(Exception):
    """The run must request licenses from before data insights, and the others, separately."""


def check_complete(run: SyncRun, lists: RunLists) -> str:
    """Raise InsightsHidden if a half of the list has something that the whole list has not.

    For a run that has read its lists. Raises CredentialsRejected. Other failures of these requests
    fail no sync: the next full one tries again. Returns a sentence about that, else "".
    """
    if run.kind == SyncRun.Kind.RECENT or run.splits_insights or run.report == Report.DATES:
        return ""
    older, newer = queries.halves(lists.queries[0])
    try:
        is_hidden = _hides_licenses(run, lists, older) or _hides_insights(run, lists, newer)
    except CredentialsRejected:
        raise
    except MarketplaceError:
        return texts.NOT_COMPARED
    if is_hidden:
        raise InsightsHidden
    return ""


def _hides_licenses(run: SyncRun, lists: RunLists, older: LicenseQuery) -> bool:
    product_id = run.connection.product_id
    rows = _first_licenses(lists, older, product_id)
    return bool(duplicates.find_missed(run, product_id, [row.key for row in rows]))


def _hides_insights(run: SyncRun, lists: RunLists, newer: LicenseQuery) -> bool:
    product_id = run.connection.product_id
    rows = [
        row
        for row in _first_licenses(lists, newer, product_id)
        if conversion.has_insights(row.fields)
    ]
    stored = duplicates.find_rows(product_id, [row.key for row in rows])
    return any(not conversion.has_insights(row.fields) for row in stored.values())


def _first_licenses(lists: RunLists, query: LicenseQuery, product_id: int) -> list[ParsedLicense]:
    """The licenses on the first page that has some."""
    for offset in range(0, MAX_PAGES * PAGE_SIZE, PAGE_SIZE):
        page = lists.client.licenses(lists.developer_id, query, offset)
        records = [record for _, record in lists.parse(page.records)]
        rows = [
            record
            for record in skip_suppressed(product_id, records)
            if isinstance(record, ParsedLicense)
        ]
        if rows or not page.has_more:
            return rows
    return []
