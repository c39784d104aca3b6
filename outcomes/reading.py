"""The outcomes of a workspace's accounts, of each kind."""

from datetime import date

from engagement.models import Workspace
from outcomes.kinds import Kind, OutcomeSet
from outcomes.settings import kinds_on, load_settings
from outcomes.sources import alarms, dormancy, licenses, traits

LIMIT = 5_000
# Workers of this queue compute what follows from outcomes. Scoring has workers of its own.
QUEUE = "backtests"


def available_kinds(workspace: Workspace) -> list[Kind]:
    """The kinds that the workspace looks at and has data for."""
    return kinds_on(workspace)


def read_outcomes(
    workspace: Workspace, kind: Kind, today: date, *, limit: int = LIMIT
) -> OutcomeSet:
    """What became of the workspace's accounts, as known on the UTC day *today*; with more than
    *limit* of them, an even sample, the same each time.

    An account counts if it has data of a day before the outcome's.
    """
    match kind:
        case Kind.DORMANCY:
            return dormancy.read(workspace.scores, today, limit)
        case Kind.ALARM:
            return alarms.read(workspace, today, limit)
        case Kind.TRAIT:
            settings = load_settings(workspace)
            since = workspace.product.history_traits.get(settings.trait)
            if since is None:
                return OutcomeSet(kind, [], {}, None)
            bad = traits.Bad(settings.trait, settings.values, settings.below)
            return traits.read(workspace.scores, bad, date.fromisoformat(since), today, limit)
        case _:
            return licenses.read(workspace.product_id, kind, today, limit)
