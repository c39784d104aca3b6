"""Previews of a rule: how many match at the moment, and the first of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db.models import Count, QuerySet

from access.pages.subject_urls import subject_url
from console.lists.columns import cut
from core.database import sql
from engagement.metric_names import Scope
from engagement.models import ScoreSet, Segment, User, Workspace
from engagement.orders import pages
from engagement.rules import filters
from engagement.rules.rules import Rule
from engagement.rules.texts import describe_rule
from engagement.scopes import get_kind
from engagement.scores.formula import rounded_score
from engagement.segments import counts
from engagement.segments import members as segments

MEMBERS_SHOWN = 10
# As many of those that the background has found are looked at: some may match no longer.
MEMBERS_LOOKED_AT = 100
# The page waits for each query.
PREVIEW_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class PreviewMember:
    """``detail`` tells people with the same name apart: an email address, a domain, or an id."""

    name: str
    url: str
    detail: str
    score: float | None = None


@dataclass(frozen=True)
class Preview:
    """``count`` and ``members`` are None if their queries take too long. ``reason`` says why there
    is no preview. ``conditions`` has the number of subjects that match each condition alone."""

    scope: str
    count: int | None = None
    members: list[PreviewMember] | None = None
    reason: str = ""
    conditions: Sequence[tuple[str, int]] = ()

    @property
    def count_text(self) -> str:
        return f"{self.count:,} {self.scope if self.count == 1 else self.scope_plural}"

    @property
    def scope_plural(self) -> str:
        return f"{self.scope}s"


def preview_segment(
    workspace: Workspace, rule: Rule, now: datetime, stored: Segment | None = None
) -> Preview:
    """The members that a segment with this rule would have, highest score first.

    *stored* is the segment that has this rule already. Its count may be the cached one.
    """
    score_set = workspace.scores
    if score_set is None:
        reason = "This workspace has no scores yet. Reload the page in a moment."
        return Preview(rule.scope, reason=reason)
    rows = segments.engagement_rows(score_set, rule.scope).filter(
        segments.members_filter(score_set, rule)
    )
    # What a page waits for, of a set whose counts take long.
    is_large = stored is not None and counts.counted_at(score_set) is not None
    limit = counts.LIVE_COUNT_SECONDS if is_large else None
    ranked = rows.select_related(rule.scope).defer(f"{rule.scope}__trait_stamps")
    ranked = ranked.order_by("-raw", f"-{rule.scope}_id")
    return Preview(
        rule.scope,
        _in_time(lambda: _count(score_set, rule, stored)),
        _first_members(ranked, score_set, rule, now, stored),
        conditions=_count_conditions(
            rule, lambda alone: segments.count_members_by_rule(score_set, alone), limit
        ),
    )


def _first_members(
    ranked: QuerySet[Any], score_set: ScoreSet, rule: Rule, now: datetime, stored: Segment | None
) -> list[PreviewMember] | None:
    """The first of all, among those that the background has found if the set is large. None if
    finding them takes too long."""
    kind = get_kind(rule.scope)
    column = pages.matches_column(score_set, kind, rule, stored)
    page = pages.read_matches(score_set, kind, column, limit=MEMBERS_LOOKED_AT, now=now)
    for candidates in [page] if page else pages.candidates(rule, score_set, now):
        ranked = ranked.filter(candidates.among(kind))

    def find() -> list[PreviewMember]:
        return [_member(row, rule.scope, score_set) for row in ranked[:MEMBERS_SHOWN]]

    with pages.noting_wait(score_set, kind, column, now):
        members: list[PreviewMember] | None = _in_time(find)
    return members


def _count(score_set: ScoreSet, rule: Rule, stored: Segment | None) -> int | None:
    if stored is None:
        return segments.count_members(score_set, rule)
    return counts.known_segment_counts(score_set, [stored]).get(stored.pk)


def preview_audience(workspace: Workspace, rule: Rule, today: date) -> Preview:
    """The users that an audience with this rule would have, newest first."""
    users = User.objects.filter(product_id=workspace.product_id, is_identified=True)
    members = users.filter(filters.audience_filter(rule, workspace.product_id, today))
    newest = members.defer("trait_stamps").order_by("-id")

    def count_users(rules: Sequence[Rule]) -> list[int]:
        filters_ = [filters.audience_filter(alone, workspace.product_id, today) for alone in rules]
        totals = users.aggregate(
            **{
                f"rule_{number}": Count("pk", filter=filter_)
                for number, filter_ in enumerate(filters_)
            }
        )
        return [totals[f"rule_{number}"] for number in range(len(rules))]

    return Preview(
        "user",
        _in_time(members.count),
        _in_time(
            lambda: [
                PreviewMember(
                    display_name(user),
                    subject_url(user, "user", workspace.pk),
                    _detail(user, "user"),
                )
                for user in newest[:MEMBERS_SHOWN]
            ]
        ),
        conditions=_count_conditions(rule, count_users),
    )


def _count_conditions(
    rule: Rule,
    count: Callable[[Sequence[Rule]], list[int]],
    limit: float | None = None,
) -> list[tuple[str, int]]:
    """Each of several conditions in words, with the number of subjects that match it alone."""
    if len(rule.conditions) < 2:
        return []
    alone = [Rule(rule.scope, rule.match, (condition,)) for condition in rule.conditions]
    matches = _in_time(lambda: count(alone), limit) or []
    return list(zip(map(describe_rule, alone), matches, strict=False))


def _in_time(query: Callable[[], Any], limit: float | None = None) -> Any:
    try:
        with sql.statement_timeout(limit or PREVIEW_TIMEOUT_SECONDS):
            return query()
    except sql.StatementTimeout:
        return None


def _member(row: Any, scope: Scope, score_set: ScoreSet) -> PreviewMember:
    subject = getattr(row, scope)
    score = rounded_score(row.raw, getattr(score_set, f"{scope}_benchmark"))
    url = subject_url(subject, scope, score_set.workspace_id)
    return PreviewMember(display_name(subject), url, _detail(subject, scope), score)


def _detail(subject: Any, scope: Scope) -> str:
    texts = [subject.trait_text("email" if scope == "user" else "domain"), subject.external_id]
    others = (text for text in texts if text and text != display_name(subject))
    return cut(next(others, ""))


def display_name(subject: Any) -> str:
    return str(subject.name or subject.trait_text("email") or subject.external_id)
