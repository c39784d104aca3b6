"""Whose changes people ask for: those of a workspace, of a segment, or of a saved view."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from engagement.models import Account, SavedView, ScoreSet, Segment, Workspace
from engagement.scopes import ACCOUNTS
from engagement.segments import members
from trends.models import WHOLE

# What a saved view keeps of the engagement rows of a set; None for all. Raises NoChanges.
ViewReader = Callable[[SavedView, ScoreSet], Q | None]
_readers: list[ViewReader] = []
NOBODY = -1


class NoChanges(ValueError):
    """Nothing can be said of these. The text says why, in a sentence."""


@dataclass(frozen=True)
class Whose:
    """The accounts of *score_set*, or those of its engagement rows that *matches* keeps.
    *segment_id* is whose figures of days count; NOBODY if there are none. *rule* is the
    segment's."""

    score_set: ScoreSet
    name: str
    matches: Q | None = None
    segment_id: int = WHOLE
    rule: Mapping[str, Any] | None = None

    @property
    def rows(self) -> QuerySet[Any]:
        """Their engagement rows."""
        rows: QuerySet[Any] = ACCOUNTS.engagement_rows(self.score_set)
        return rows if self.matches is None else rows.filter(self.matches)

    @property
    def accounts(self) -> QuerySet[Account]:
        accounts = Account.objects.filter(product=self.score_set.product_id, is_identified=True)
        return accounts.defer("trait_stamps")


def register_view_reader(reader: ViewReader) -> None:
    """Have *reader* say what saved views keep. The pages of lists know it, and they are above."""
    _readers[:] = [reader]


def of_workspace(
    workspace: Workspace, segment: Segment | None = None, view: SavedView | None = None
) -> Whose:
    """Raises NoChanges. Select the workspace with its ``scores__cached_counts``."""
    score_set = workspace.scores
    if score_set is None or score_set.scored_day is None:
        raise NoChanges("The workspace has no scores yet.")
    score_set.workspace = workspace
    named = segment or view
    if named is None:
        return Whose(score_set, workspace.name)
    if named.scope != "account":
        raise NoChanges("Changes are about accounts. Choose a segment or a view of accounts.")
    matches = rows_filter(named, score_set)
    if segment is None:
        return Whose(score_set, named.name, matches, NOBODY)
    return Whose(score_set, named.name, matches, segment.pk, segment.stored_rule)


def rows_filter(source: Segment | SavedView, score_set: ScoreSet) -> Q | None:
    """What the segment or the view keeps of the engagement rows of its kind; None for all. Raises
    NoChanges."""
    if isinstance(source, Segment):
        return members.members_filter(score_set, members.segment_rule(source))
    if not _readers:
        raise NoChanges("This process does not know what saved views keep.")
    return _readers[0](source, score_set)
