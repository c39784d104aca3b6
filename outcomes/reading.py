"""The outcomes of a workspace's accounts, of each kind."""

from datetime import date

from engagement.models import Workspace
from outcomes.kinds import Kind, OutcomeSet
from outcomes.sources import dormancy, licenses

LIMIT = 5_000


def available_kinds(workspace: Workspace) -> list[Kind]:
    """The kinds that the workspace's product has data for."""
    return [*licenses.kinds_of(workspace.product_id), Kind.DORMANCY]


def read_outcomes(
    workspace: Workspace, kind: Kind, today: date, *, limit: int = LIMIT
) -> OutcomeSet:
    """What became of the workspace's accounts, as known on the UTC day *today*; with more than
    *limit* of them, an even sample, the same each time.

    An account counts if it has data of a day before the outcome's.
    """
    if kind is Kind.DORMANCY:
        return dormancy.read(workspace.scores, today, limit)
    return licenses.read(workspace.product_id, kind, today, limit)
