"""The lists of users and accounts: ranking, segments, and search."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from engagement.admin import subject_lists
from engagement.models import ScoreSet, Segment, User, Workspace
from tests.admin.rows import Rows, a_user, an_account, index_for_search
from tests.admin.test_subject_pages import counted, second_workspace


def listed(who: Client, kind: Any = "user", **query: Any) -> list[str]:
    answer = who.get(reverse(f"admin:engagement_{kind}_changelist"), query)
    assert answer.status_code == 200, answer
    return [one.external_id for one in answer.context["cl"].result_list]


@pytest.fixture
def ranked(acme_rows: Rows) -> Rows:
    """Users of 500, 100 and 1 points, newest last."""
    for name, raw in [("high", 500), ("low", 1)]:
        a_user(acme_rows.product, name, acme_rows.workspace, acme_rows.account, raw)
    return acme_rows


def test_a_workspace_ranks_those_whom_it_scores(root: Client, ranked: Rows) -> None:
    assert listed(root) == ["low", "high", "acme-user"]
    first, second = ranked.workspace.pk, second_workspace(ranked).pk
    assert listed(root, workspace=first) == ["high", "acme-user", "low"]
    assert listed(root, workspace=second) == ["acme-user"]
    assert listed(root, "account", workspace=first) == ["acme-account"]


def test_a_ranked_list_shows_the_score(root: Client, ranked: Rows) -> None:
    address = reverse("admin:engagement_user_changelist")
    html = root.get(address, {"workspace": ranked.workspace.pk}).content.decode()
    assert '<td class="field-score">90.0</td>' in html
    assert "field-score" not in root.get(address).content.decode()


def test_a_list_shows_names_or_else_ids(root: Client, ranked: Rows) -> None:
    User.objects.filter(external_id="high").update(traits={"name": "Ada"})
    html = root.get(reverse("admin:engagement_user_changelist")).content.decode()
    called = re.findall(r'<th class="field-display_name"><a [^>]*>([^<]+)<', html)
    assert called == ["low", "Ada", "acme-user"]


def test_subjects_with_equal_points_are_listed_once_newest_first(
    root: Client, ranked: Rows
) -> None:
    a_user(ranked.product, "equal", ranked.workspace, ranked.account, 500)
    assert listed(root, workspace=ranked.workspace.pk)[:2] == ["equal", "high"]


def test_nobody_is_listed_by_scores_that_are_not_there(root: Client, ranked: Rows) -> None:
    ScoreSet.objects.update(scored_day=None)
    chosen = {"workspace": ranked.workspace.pk}
    assert listed(root, **chosen) == []
    assert listed(root, **chosen, segment=ranked.segment.pk) == []
    Workspace.objects.update(scores=None)
    assert listed(root, **chosen) == []


def test_a_segment_leaves_its_members(root: Client, ranked: Rows) -> None:
    chosen = {"workspace": ranked.workspace.pk, "segment": ranked.segment.pk}
    assert listed(root, **chosen) == ["high", "acme-user", "low"]
    # The segment has the users who did not do the event.
    counted(ranked)
    assert listed(root, **chosen) == ["high", "low"]
    index_for_search(ranked.product)
    assert listed(root, **chosen, q="hig") == ["high"]


def test_of_a_large_segment_the_highest_are_listed_and_all_are_exported(
    root: Client, ranked: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject_lists, "MAX_LISTED_ROWS", 1)
    chosen = {"workspace": ranked.workspace.pk, "segment": ranked.segment.pk}
    assert listed(root, **chosen) == ["high", "acme-user"]
    answer: Any = root.get(reverse("admin:engagement_user_export"), chosen)
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert [line.split(",")[0] for line in lines] == ["id", "high", "acme-user", "low"]


def test_a_search_covers_all_members_of_a_segment(
    root: Client, ranked: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject_lists, "MAX_LISTED_ROWS", 0)
    index_for_search(ranked.product)
    chosen = {"workspace": ranked.workspace.pk, "segment": ranked.segment.pk}
    assert listed(root, **chosen, q="low") == ["low"]


def test_segments_are_offered_of_the_chosen_workspace_and_kind(root: Client, ranked: Rows) -> None:
    address = reverse("admin:engagement_account_changelist")
    offered = f"segment={ranked.segment.pk}"
    assert offered not in root.get(address, {"workspace": ranked.workspace.pk}).content.decode()
    users = reverse("admin:engagement_user_changelist")
    assert offered in root.get(users, {"workspace": ranked.workspace.pk}).content.decode()
    assert offered not in root.get(users).content.decode()


def test_no_workspace_or_segment_of_another_product_is_taken(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    own, theirs = acme_rows.workspace.pk, globex_rows.workspace.pk
    for kind in ("user", "account"):
        address = reverse(f"admin:engagement_{kind}_changelist")
        for query in (
            {"workspace": theirs},
            {"workspace": "x"},
            {"workspace": theirs, "segment": globex_rows.segment.pk},
            {"workspace": own, "segment": globex_rows.segment.pk},
        ):
            answer = member.get(address, query)
            assert answer.status_code == 404, query
            assert b"globex" not in answer.content.lower()
        assert listed(member, kind, workspace=own) == [f"acme-{kind}"]
        assert b"Globex" not in member.get(address).content


def test_another_workspace_lets_go_of_the_segment(root: Client, ranked: Rows) -> None:
    second = second_workspace(ranked)
    address = reverse("admin:engagement_user_changelist")
    chosen = {"workspace": ranked.workspace.pk, "segment": ranked.segment.pk}
    assert f'href="{address}?workspace={second.pk}"' in root.get(address, chosen).content.decode()


def test_a_segment_that_cannot_be_used_is_not_offered(root: Client, ranked: Rows) -> None:
    Segment.objects.filter(pk=ranked.segment.pk).update(conditions=[{"kind": "of old"}])
    address = reverse("admin:engagement_user_changelist")
    html = root.get(address, {"workspace": ranked.workspace.pk}).content.decode()
    assert f"segment={ranked.segment.pk}" not in html


def test_a_subject_is_found_by_any_part_of_its_name(root: Client, acme_rows: Rows) -> None:
    an_account(acme_rows.product, "other", acme_rows.workspace)
    index_for_search(acme_rows.product)
    assert listed(root, "account", q="CCOUNT name") == ["acme-account"]
    assert listed(root, "account", q="other", product__id__exact=acme_rows.product.pk) == ["other"]
    assert listed(root, "account", q='"}') == []


@pytest.mark.parametrize("many", [1, 30])
def test_a_ranked_list_costs_the_same_queries_however_long(
    root: Client, ranked: Rows, django_assert_max_num_queries: Any, many: int
) -> None:
    for number in range(many):
        a_user(ranked.product, f"u{number}", ranked.workspace, ranked.account)
    with django_assert_max_num_queries(15):
        listed(root, workspace=ranked.workspace.pk, segment=ranked.segment.pk)


def totals(page: str) -> tuple[str, str]:
    """The number of rows that a list shows above and below them."""
    above = re.findall(r'<span class="eds-count quiet">(.*?)</span>', page, re.DOTALL)[0]
    below = re.findall(r'<p class="paginator">(.*?)</p>', page, re.DOTALL)[-1]
    plain = [re.sub(r"<[^>]*>|\(.*?\)", " ", one) for one in (above, below)]
    first, last = (" ".join(one.split()) for one in plain)
    return first, last


def test_a_cut_list_says_the_same_total_at_both_ends(
    root: Client, ranked: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = reverse("admin:engagement_user_changelist")
    chosen = {"workspace": ranked.workspace.pk}
    assert totals(root.get(address, chosen).content.decode()) == ("3 users", "3 users")
    monkeypatch.setattr("engagement.admin.listing.BoundedPaginator.max_rows", 2)
    monkeypatch.setattr(subject_lists, "MAX_LISTED_ROWS", 2)
    for query in (chosen, {**chosen, "segment": ranked.segment.pk}):
        above, below = totals(root.get(address, query).content.decode())
        assert above == "3 users" and "The first 2 of 3 users." in below, query
    # These are not counted.
    above, below = totals(root.get(address).content.decode())
    assert above == "More than 2 users" and "The first 2 users. There are more." in below
