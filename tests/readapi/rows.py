"""Rows as recording and rescoring write them, for tests that only read."""

from datetime import UTC, date, datetime
from typing import Any

from engagement.models import (
    Account,
    AccountEngagement,
    Product,
    ScoreSet,
    User,
    UserEngagement,
    Workspace,
)
from engagement.tenure import parse_created_at

SPRING = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
SUMMER = datetime(2026, 6, 1, 12, 0, 0, 123456, tzinfo=UTC)
# The day of the scores.
SCORED_DAY = date(2026, 6, 9)


def workspace_of(product: Product) -> Workspace:
    """The product's workspace with published scores."""
    workspace = Workspace.objects.get(product=product)
    scores_of(workspace)
    return workspace


def scores_of(workspace: Workspace) -> ScoreSet:
    """The workspace's published score set; creates one if there is none."""
    if workspace.scores is None:
        workspace.scores = ScoreSet.objects.create(
            product=workspace.product,
            workspace=workspace,
            state=ScoreSet.State.CURRENT,
            lookback_days=workspace.lookback_days,
            default_weight=workspace.default_weight,
            scored_day=SCORED_DAY,
        )
        workspace.save(update_fields=["scores"])
    return workspace.scores


def make_account(
    workspace: Workspace,
    external_id: str,
    raw: int = 0,
    *,
    traits: dict[str, Any] | None = None,
    first_seen_at: datetime = SPRING,
    last_seen_at: datetime = SUMMER,
    active_users: int = 0,
) -> Account:
    """An identified account with its engagement in the workspace."""
    account = Account.objects.create(
        product=workspace.product,
        external_id=external_id,
        traits=traits or {},
        is_identified=True,
        first_seen_at=first_seen_at,
        last_seen_at=last_seen_at,
        created_at=parse_created_at(traits or {}),
    )
    AccountEngagement.objects.create(
        product=workspace.product,
        score_set=scores_of(workspace),
        account=account,
        raw=raw,
        event_count=raw // 2,
        active_days=min(raw, 3),
        last_active_at=last_seen_at if raw else None,
        active_users=active_users,
    )
    return account


def make_user(
    workspace: Workspace,
    external_id: str,
    raw: int = 0,
    *,
    traits: dict[str, Any] | None = None,
    account: Account | None = None,
    first_seen_at: datetime = SPRING,
    last_seen_at: datetime = SUMMER,
) -> User:
    """An identified user with their engagement in the workspace."""
    user = User.objects.create(
        product=workspace.product,
        external_id=external_id,
        traits=traits or {},
        account=account,
        is_identified=True,
        first_seen_at=first_seen_at,
        last_seen_at=last_seen_at,
        created_at=parse_created_at(traits or {}),
    )
    UserEngagement.objects.create(
        product=workspace.product,
        score_set=scores_of(workspace),
        user=user,
        raw=raw,
        event_count=raw // 2,
        active_days=min(raw, 3),
        last_active_at=last_seen_at if raw else None,
    )
    return user
