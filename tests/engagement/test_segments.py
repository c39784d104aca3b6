"""The default segments and their members, with numbers computed by hand.

Today is the 24th of September 2026. Under the benchmark of 100 a raw score of 60 shows 74.9 and 61
shows 75.4; 30 and 31 show 49.9 and 51.0; 12 and 13 show 24.1 and 25.9.
"""

from typing import Any

import pytest

from engagement.metric_names import BOTH_SCOPES, Scope
from engagement.models import Product, ScoreSet, Segment, Workspace
from engagement.segments import members as segments
from tests.engagement.rows import MAKE, account, ago, members, named, user

pytestmark = pytest.mark.django_db


# --- Default segments -----------------------------------------------------------------------

FOR_BOTH = [
    "All", "All Active", "New", "Most Engaged", "Slightly Engaged", "Passive", "Least Engaged",
    "Recently Inactive", "Red Hot", "Ice Cold", "Mature", "Active Today",
]  # fmt: skip


def test_each_workspace_starts_with_the_default_segments(acme: Product) -> None:
    for workspace in (acme.workspaces.get(), Workspace.objects.create(product=acme, name="More")):
        own = Segment.objects.filter(workspace=workspace)
        assert [segment.name for segment in own.filter(scope="user")] == FOR_BOTH
        assert [segment.name for segment in own.filter(scope="account")] == [
            *FOR_BOTH,
            "Multi-User Accounts",
        ]
        assert all(segment.is_default for segment in own)
        workspace.save(update_fields=["name"])
        assert own.count() == 25


# Each row: the numbers of a subject, and the default segments besides "All" that have it.
SUBJECTS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, set()),
    ({"raw": 61}, {"All Active", "Most Engaged", "Red Hot"}),
    ({"raw": 60}, {"All Active", "Slightly Engaged", "Red Hot"}),
    # A period ago the benchmark was 200, under which 62 showed 51.0.
    ({"raw": 31, "raw_last_period": 62}, {"All Active", "Slightly Engaged"}),
    ({"raw": 30, "raw_last_period": 62}, {"All Active", "Passive"}),
    ({"raw": 13, "raw_last_period": 24}, {"All Active", "Passive"}),
    ({"raw": 12, "raw_last_period": 24}, {"All Active", "Least Engaged"}),
    # 44 of 200 shows 39.7: a change of 10.2.
    ({"raw": 30, "raw_last_period": 44}, {"All Active", "Passive", "Red Hot"}),
    # 46 of 200 shows 41.1: a change of 8.8.
    ({"raw": 30, "raw_last_period": 46}, {"All Active", "Passive"}),
    # 80 of 200 shows 60.2, 78 shows 59.3: changes of -10.3 and -9.4.
    ({"raw": 30, "raw_last_period": 80}, {"All Active", "Passive", "Ice Cold"}),
    ({"raw": 30, "raw_last_period": 78}, {"All Active", "Passive"}),
    ({"last_active_at": ago(0)}, {"Active Today"}),
    # Midnight was twelve hours before noon.
    ({"last_active_at": ago(0.5)}, {"Active Today"}),
    ({"last_active_at": ago(0.6)}, set()),
    ({"last_active_at": ago(29.5)}, set()),
    ({"last_active_at": ago(29.6)}, {"Recently Inactive"}),
    ({"last_active_at": ago(60.5)}, {"Recently Inactive"}),
    ({"last_active_at": ago(60.6)}, set()),
    # The window is today and the six days before it.
    ({"first_seen_at": ago(6.5)}, {"New"}),
    ({"first_seen_at": ago(6.6)}, set()),
    ({"created_at": ago(6.5)}, {"New"}),
    ({"first_seen_at": ago(0), "created_at": ago(90)}, set()),
    ({"created_at": ago(179.5)}, set()),
    ({"created_at": ago(179.6)}, {"Mature"}),
    ({"first_seen_at": ago(300), "created_at": ago(1)}, {"New"}),
]  # fmt: skip


@pytest.mark.parametrize("scope", BOTH_SCOPES)
@pytest.mark.parametrize(("numbers", "expected"), SUBJECTS, ids=lambda value: named(value)[:60])
def test_members_of_the_default_segments(
    scores: ScoreSet, scope: Scope, numbers: dict[str, Any], expected: set[str]
) -> None:
    row = MAKE[scope](scores, "ann", **numbers)
    MAKE[scope](scores, "somebody else")
    own = list(Segment.objects.filter(workspace=scores.workspace))
    assert {segment.name for segment in segments.segments_containing(scores, own, row)} == {
        "All",
        *expected,
    }
    counts = segments.count_members_by_segment(scores, own)
    for segment in own:
        if segment.scope == scope:
            name = segment.name
            names = members(scores, scope, *segment.conditions)
            assert ("ann" in names) == (name == "All" or name in expected), name
            assert counts[segment.pk] == len(names), name
        else:
            assert counts[segment.pk] == 0


def test_accounts_with_two_users_are_multi_user_accounts(scores: ScoreSet) -> None:
    for users in (0, 1, 2, 50):
        account(scores, f"{users} users", total_users=users)
    (conditions,) = Segment.objects.filter(
        workspace=scores.workspace, name="Multi-User Accounts"
    ).values_list("conditions", flat=True)
    assert members(scores, "account", *conditions) == {"2 users", "50 users"}


@pytest.mark.parametrize(("lookback", "expected"), [(1, set()), (7, {"ann"}), (30, {"ann", "bob"})])
def test_new_follows_the_lookback(scores: ScoreSet, lookback: int, expected: set[str]) -> None:
    user(scores, "ann", first_seen_at=ago(6))
    user(scores, "bob", first_seen_at=ago(29))
    ScoreSet.objects.update(lookback_days=lookback)
    scores.refresh_from_db()
    new = Segment.objects.get(workspace=scores.workspace, name="New", scope="user")
    assert members(scores, "user", *new.conditions) == expected


@pytest.mark.parametrize("scope", BOTH_SCOPES)
def test_segments_cost_few_queries(
    scores: ScoreSet, scope: Scope, django_assert_num_queries: Any
) -> None:
    row = MAKE[scope](scores, "ann")
    condition = {"kind": "event", "event": "opened", "operator": "done"}
    Segment.objects.create(
        workspace=scores.workspace, scope=scope, name="x", conditions=[condition]
    )
    own = list(Segment.objects.filter(workspace=scores.workspace, scope=scope))
    with django_assert_num_queries(2):
        segments.segments_containing(scores, own, row)
    with django_assert_num_queries(2):
        segments.count_members_by_segment(scores, own)
    with django_assert_num_queries(2):
        segments.count_members(scores, segments.segment_rule(own[-1]))
