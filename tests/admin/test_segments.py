"""Editing segments: rows of conditions, the preview of members, and isolation of products."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Func, Q, Value
from django.db.models.lookups import IsNull
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from engagement.models import Product, Segment, User, Workspace
from engagement.models.segments import MAX_CUSTOM_SEGMENTS
from tests.admin.rows import Rows, a_user
from tests.cases import each, leaves_no_rows
from trends.models import DayFigures

LIST = "admin:engagement_segment_changelist"
ADD = "admin:engagement_segment_add"


def page(segment: Segment) -> str:
    return reverse("admin:engagement_segment_change", args=[segment.pk])


def filled_in(*rows: dict[str, Any], match: str = "all", **more: Any) -> dict[str, Any]:
    """The conditions as a browser submits them."""
    data: dict[str, Any] = {
        "conditions-TOTAL_FORMS": len(rows),
        "conditions-INITIAL_FORMS": 0,
        "conditions-match": match,
        **more,
    }
    for number, row in enumerate(rows):
        data |= {f"conditions-{number}-{name}": value for name, value in row.items()}
    return data


def new(rows: Rows, *conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
    about = {"workspace": rows.workspace.pk, "scope": "user", "name": "Mine"}
    return filled_in(*conditions, **{**about, **more})


TRAIT = {"what": "trait", "trait": "plan", "trait_is": "is", "text": "pro"}
ADMINS_OF_SEATS = {"what": "trait", "trait": "seats", "trait_is": "at_least", "text": "3"}


# --- The list -----------------------------------------------------------------------------------


def test_the_list_says_what_members_meet_and_how_many_there_are(
    root: Client, acme_rows: Rows
) -> None:
    html = root.get(reverse(LIST)).content.decode()
    assert "Most Engaged" in html and "Engagement score is at least 75" in html
    assert "Event “acme event” not done ever and trait “plan” is set" in html
    assert html.count('<td class="field-members">1</td>') > 5


def test_the_list_costs_few_queries(
    root: Client, acme_rows: Rows, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(14):
        root.get(reverse(LIST))


def test_a_workspace_that_is_not_scored_yet_has_no_counts(root: Client, acme: Product) -> None:
    html = root.get(reverse(LIST)).content.decode()
    assert html.count('<td class="field-members">–</td>') == 25
    segment = Segment.objects.filter(workspace__product=acme).first()
    assert segment and "has no scores yet" in root.get(page(segment)).content.decode()


# --- Default segments ---------------------------------------------------------------------------


def test_default_segments_are_to_look_at(root: Client, acme_rows: Rows) -> None:
    segment = Segment.objects.get(workspace=acme_rows.workspace, scope="user", name="All")
    html = root.get(page(segment)).content.decode()
    assert "All users" in html and "acme-user" in html and "<strong>1 user</strong>" in html
    assert 'name="_save"' not in html and "conditions-TOTAL_FORMS" not in html
    assert root.post(page(segment), filled_in(TRAIT, name="Taken over")).status_code == 403
    delete = reverse("admin:engagement_segment_delete", args=[segment.pk])
    assert root.post(delete, {"post": "yes"}).status_code == 403
    segment.refresh_from_db()
    assert (segment.name, segment.conditions) == ("All", [])


def test_members_with_the_same_name_are_told_apart(root: Client, acme_rows: Rows) -> None:
    for name in ("first", "second"):
        a_user(acme_rows.product, name, acme_rows.workspace, acme_rows.account)
    User.objects.filter(external_id="second").update(traits={})
    User.objects.filter(external_id="first").update(
        traits={"name": "Mei Lind", "email": "mei@example.com"}
    )
    segment = Segment.objects.get(workspace=acme_rows.workspace, scope="user", name="All")
    html = root.get(page(segment)).content.decode()
    assert '>Mei Lind</a> <span class="quiet">mei@example.com</span>' in html
    assert html.count(">second<") == 1


def test_a_segment_begins_like_another(root: Client, acme_rows: Rows) -> None:
    like = Segment.objects.get(workspace=acme_rows.workspace, scope="user", name="Passive")
    link = f"{reverse(ADD)}?workspace={acme_rows.workspace.pk}&amp;scope=user&amp;like={like.pk}"
    assert link in root.get(page(like)).content.decode()
    html = root.get(link.replace("&amp;", "&")).content.decode()
    assert '<option value="metric:engagement_score" selected>' in html
    assert 'value="25"' in html and 'value="49.9"' in html


# --- Making one ---------------------------------------------------------------------------------


def test_the_page_says_whose_segment_it_is_and_offers_its_conditions(
    root: Client, acme_rows: Rows
) -> None:
    html = root.get(reverse(ADD)).content.decode()
    assert "Acme · Default" in html and '<option value="account" selected>Accounts' in html
    assert "Active users (number)" in html and "Trait of the user’s account" not in html
    assert '<option value="acme event">' in html
    # A choice changes what is offered, without saving or an error.
    data = {"workspace": acme_rows.workspace.pk, "scope": "user", "name": "", "_reload": "1"}
    html = root.post(reverse(ADD), data).content.decode()
    assert '<option value="user" selected>Users' in html and "Trait of the user’s account" in html
    assert (
        "errornote" not in html and not Segment.objects.filter(is_default=False, name="").exists()
    )


# The inputs of each row, and the condition that they make.
MADE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (TRAIT, {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}),
    (
        {"what": "trait", "trait": " seats ", "trait_is": "at_least", "text": " 2.50 "},
        {"kind": "trait", "trait": "seats", "operator": "at_least", "value": 2.5},
    ),
    (
        {"what": "trait", "trait": "a", "trait_is": "before", "date": "2025-01-31", "text": "x"},
        {"kind": "trait", "trait": "a", "operator": "before", "value": "2025-01-31"},
    ),
    (
        {"what": "trait", "trait": "a", "trait_is": "is_set", "text": "left over"},
        {"kind": "trait", "trait": "a", "operator": "is_set", "value": None},
    ),
    (
        {"what": "account_trait", "account_trait": "plan", "trait": "other", "text": "pro"},
        {
            "kind": "account_trait",
            "trait": "plan",
            "operator": "is_ignoring_case",
            "value": "pro",
        },
    ),
    (
        {"what": "event", "event": "acme event", "times": "3", "days": "30"},
        {"kind": "event", "event": "acme event", "operator": "done", "times": 3,
         "within_days": 30},
    ),
    (
        {"what": "event", "event": "new ", "event_is": "not_done", "times": "3", "days": ""},
        {"kind": "event", "event": "new", "operator": "not_done", "times": 1,
         "within_days": None},
    ),
    (
        {"what": "last_active", "time_is": "more_than_days_ago", "days": "30"},
        {"kind": "last_active", "operator": "more_than_days_ago", "days": 30},
    ),
    (
        {"what": "created", "time_is": "within_days", "days": ""},
        {"kind": "created", "operator": "within_days", "days": "window"},
    ),
    ({"what": "active", "active": "no"}, {"kind": "active", "active": False}),
    ({"what": "trend", "trend": "falling"}, {"kind": "trend", "trend": "falling"}),
    (
        {"what": "metric:raw_score", "comparison": "at_most", "number": "-5", "upper": "7"},
        {"kind": "metric", "metric": "raw_score", "operator": "at_most", "value": -5,
         "upper": None},
    ),
    (
        {"what": "metric:adoption", "comparison": "between", "number": "12.5", "upper": "100 %"},
        {"kind": "metric", "metric": "adoption", "operator": "between", "value": 0.125,
         "upper": 1},
    ),
]  # fmt: skip


def test_a_row_makes_a_condition_and_is_filled_in_from_it(member: Client, acme_rows: Rows) -> None:
    rows, conditions = zip(*MADE, strict=True)
    answer = member.post(reverse(ADD), new(acme_rows, {}, *rows, {"what": ""}, match="any"))
    assert answer.status_code == 302
    segment = Segment.objects.get(name="Mine")
    assert (segment.scope, segment.match, segment.conditions) == ("user", "any", [*conditions])
    assert (segment.workspace, segment.is_default) == (acme_rows.workspace, False)
    # Saving the page without changes keeps the conditions.
    form = member.get(page(segment)).context["adminform"].form
    again = [
        {name: "" if value is None else value for name, value in row.initial.items()}
        for row in form.rows.rows[: len(MADE)]
    ]
    assert (
        member.post(page(segment), filled_in(*again, match="any", name="Mine")).status_code == 302
    )
    segment.refresh_from_db()
    assert segment.conditions == [*conditions]


def test_shares_are_in_percent_and_stored_rules_stay_as_they_are(
    member: Client, acme_rows: Rows
) -> None:
    def condition(metric: str, value: float) -> dict[str, Any]:
        return {
            "kind": "metric",
            "metric": metric,
            "operator": "at_least",
            "value": value,
            "upper": None,
        }

    # The last one was meant as 50%. Seats may be taken by more people than they are for.
    stored = [
        condition("adoption", 0.07),
        condition("license_utilization", 2),
        condition("active_share", 50),
    ]
    segment = Segment.objects.create(
        workspace=acme_rows.workspace, scope="account", name="Old", conditions=stored
    )
    listed = member.get(reverse(LIST)).content.decode()
    assert (
        "Feature adoption in the window is at least 7% and seat utilization is at least 200% and "
        "share of active users is at least 5,000%" in listed
    )
    form = member.get(page(segment)).context["adminform"].form
    inputs = [dict(row.initial) for row in form.rows.rows if row.initial]
    assert [row["number"] for row in inputs] == ["7", "200", "5000"]
    answer = member.post(page(segment), filled_in(*inputs, name="Old"))
    assert "Enter a percentage from 0 to 100" in answer.content.decode()
    segment.refresh_from_db()
    assert segment.conditions == stored
    inputs[-1]["number"] = "50"
    assert member.post(page(segment), filled_in(*inputs, name="Old")).status_code == 302
    segment.refresh_from_db()
    assert segment.conditions == [*stored[:2], condition("active_share", 0.5)]


def test_a_segment_of_accounts_may_have_a_condition_on_an_insight(
    member: Client, acme_rows: Rows
) -> None:
    row = {"what": "insight", "insight": "seats_unused", "has_insight": "no"}
    inputs = {**new(acme_rows, row, {"what": ""}), "scope": "account"}
    assert member.post(reverse(ADD), inputs).status_code == 302
    segment = Segment.objects.get(name="Mine")
    assert segment.conditions == [{"kind": "insight", "insight": "seats_unused", "has": False}]
    html = member.get(page(segment)).content.decode()
    assert '<option value="seats_unused" selected>Seats unused</option>' in html
    listed = member.get(reverse(LIST)).content.decode()
    assert "Does not have the insight “Seats unused”" in listed


def test_a_segment_of_accounts_may_have_a_condition_on_their_activity(
    member: Client, acme_rows: Rows
) -> None:
    inputs = {**new(acme_rows, {"what": "activity", "activity": "settled_lower"}, {"what": ""})}
    assert member.post(reverse(ADD), inputs | {"scope": "account"}).status_code == 302
    segment = Segment.objects.get(name="Mine")
    assert segment.conditions == [{"kind": "activity", "state": "settled_lower"}]
    html = member.get(page(segment)).content.decode()
    assert '<option value="settled_lower" selected>settled at a lower level</option>' in html
    listed = member.get(reverse(LIST)).content.decode()
    assert "Activity: settled at a lower level" in listed


def test_a_segment_of_accounts_may_have_a_condition_on_license_events(
    member: Client, acme_rows: Rows
) -> None:
    row = {"what": "license_event", "license_event": "churned", "days": "90"}
    never = {**row, "license_event": "won_back", "license_event_is": "not_happened", "days": ""}
    inputs = {**new(acme_rows, row, never, {"what": ""}), "scope": "account"}
    assert member.post(reverse(ADD), inputs).status_code == 302
    segment = Segment.objects.get(name="Mine")
    churned = {"kind": "license_event", "event": "churned", "operator": "happened"}
    assert segment.conditions == [
        {**churned, "within_days": 90},
        {**churned, "event": "won_back", "operator": "not_happened", "within_days": None},
    ]
    html = member.get(page(segment)).content.decode()
    assert '<option value="churned" selected>Churned</option>' in html
    assert '<option value="not_happened" selected>did not happen</option>' in html
    listed = member.get(reverse(LIST)).content.decode()
    assert "License event “Churned” happened within 90 days" in listed
    problems = {"from 1 to 3,650": {"days": "5000"}, "a valid choice": {"license_event": "lost"}}
    for message, answers in problems.items():
        inputs = {**new(acme_rows, {**row, **answers}, {"what": ""}), "scope": "account"}
        assert message in member.post(reverse(ADD), inputs).content.decode()


def test_a_segment_of_accounts_may_have_a_condition_on_a_chance(
    member: Client, acme_rows: Rows
) -> None:
    row = {"what": "chance:renew", "chance_is": "below", "percent": "30"}
    inputs = {**new(acme_rows, row, {"what": ""}), "scope": "account"}
    assert member.post(reverse(ADD), inputs).status_code == 302
    segment = Segment.objects.get(name="Mine")
    stored = {"kind": "chance", "chance": "renew", "operator": "below", "percent": 30}
    assert segment.conditions == [stored]
    html = member.get(page(segment)).content.decode()
    assert '<option value="chance:renew" selected>Chance to renew</option>' in html
    assert re.search('<input type="text" name="[^"]*percent" value="30"', html)
    assert "Chance to renew is below 30%" in member.get(reverse(LIST)).content.decode()
    for percent in ("", "0", "101"):
        inputs = {**new(acme_rows, {**row, "percent": percent}, {"what": ""}), "scope": "account"}
        html = member.post(reverse(ADD), inputs).content.decode()
        assert "Enter a whole percentage from 1 to 100." in html
    inputs = {**new(acme_rows, {**row, "percent": "half"}, {"what": ""}), "scope": "account"}
    assert "Enter a whole number." in member.post(reverse(ADD), inputs).content.decode()
    assert 'value="chance:' not in member.get(f"{reverse(ADD)}?scope=user").content.decode()


# What is wrong in a row, and what its error says.
BAD: list[tuple[dict[str, Any], str]] = [
    ({**TRAIT, "trait": " "}, "Enter the trait’s name."),
    ({**TRAIT, "text": ""}, "Enter the text to compare with."),
    ({**TRAIT, "text": "x" * 513}, "with at most 512 characters"),
    ({**TRAIT, "text": "a\0"}, "Null characters are not allowed."),
    ({**TRAIT, "trait_is": "at_least", "text": "many"}, "Enter a number, such as 75 or 0.5."),
    ({**TRAIT, "trait_is": "at_least", "text": "1e5"}, "Enter a number, such as 75 or 0.5."),
    ({**TRAIT, "trait_is": "at_least", "text": "9" * 30}, "at most 15 digits"),
    ({**TRAIT, "trait_is": "before", "date": "soon"}, "Enter a date like"),
    ({"what": "event", "event": "", "days": "1"}, "Enter the event’s name."),
    ({"what": "event", "event": "a", "times": "0"}, "from 1 to 1,000,000,000"),
    ({"what": "event", "event": "a", "times": "two"}, "Enter a whole number."),
    ({"what": "event", "event": "a", "days": "-1"}, "Enter a whole number."),
    ({"what": "created", "days": "5000"}, "from 1 to 3,650"),
    ({"what": "metric:raw_score", "number": ""}, "Enter a number, such as 75 or 0.5."),
    ({"what": "metric:raw_score", "comparison": "between", "number": "2", "upper": "1"},
     "must not be below the first"),
    ({"what": "metric:adoption", "number": "150"}, "Enter a percentage from 0 to 100"),
    ({"what": "metric:adoption", "number": "half"}, "Enter a percentage from 0 to 100"),
    ({"what": "metric:active_users", "number": "2"}, "Select a valid choice."),
    ({"what": "magic"}, "Select a valid choice."),
    ({"what": "trend", "trend": "up"}, "Select a valid choice."),
]  # fmt: skip


def test_a_condition_that_cannot_be_used_says_why(member: Client, acme_rows: Rows) -> None:
    answer = member.post(reverse(ADD), new(acme_rows, TRAIT, *(row for row, _ in BAD)))
    # Each error is at its row, and a typed value is still there.
    _, good, *bad = answer.content.decode().split('<div class="eds-condition">')
    assert answer.status_code == 200 and 'value="pro"' in good
    assert len(bad) >= len(BAD) and not any(sentence in good for _, sentence in BAD)
    for (row, sentence), html in zip(BAD, bad, strict=False):
        assert sentence in html, row
    assert not Segment.objects.filter(name="Mine").exists()


@pytest.mark.slow
@each(
    ("changes", "sentence"),
    [
        ({"name": ""}, "This field is required."),
        ({"name": "x" * 101}, "at most 100 characters"),
        ({"name": "acme segment"}, "This workspace already has a segment with this name."),
        ({"name": "All"}, "This workspace already has a segment with this name."),
        ({"conditions-TOTAL_FORMS": "0"}, "Add at least one condition."),
        ({"conditions-TOTAL_FORMS": "many"}, "A condition is not valid"),
        ({"conditions-TOTAL_FORMS": "9" * 30}, "A condition is not valid"),
        ({"conditions-match": "most"}, "A condition is not valid"),
    ],
)
@leaves_no_rows
def test_a_bad_segment_has_an_error(
    member: Client, acme_rows: Rows, changes: dict[str, Any], sentence: str
) -> None:
    answer = member.post(reverse(ADD), {**new(acme_rows, TRAIT), **changes})
    assert answer.status_code == 200 and sentence in answer.content.decode()
    assert not Segment.objects.filter(name="Mine").exists()


def test_another_workspace_may_use_the_name_again(member: Client, acme_rows: Rows) -> None:
    other = Workspace.objects.create(product=acme_rows.product, name="Other")
    data = new(acme_rows, TRAIT, workspace=other.pk, name="acme segment")
    assert member.post(reverse(ADD), data).status_code == 302


def test_more_conditions_than_a_rule_may_have_are_refused(member: Client, acme_rows: Rows) -> None:
    answer = member.post(reverse(ADD), new(acme_rows, *[TRAIT] * 21))
    assert "at most 20" in answer.content.decode()


def test_more_segments_than_a_workspace_may_have_are_refused_and_the_others_can_be_changed(
    member: Client, acme_rows: Rows
) -> None:
    workspace = acme_rows.workspace
    # The workspace already has a segment with this name.
    Segment.objects.bulk_create(
        Segment(workspace=workspace, scope="user", name=f"Segment {number}", conditions=[])
        for number in range(MAX_CUSTOM_SEGMENTS - 2)
    )
    assert member.post(reverse(ADD), new(acme_rows, TRAIT)).status_code == 302
    html = member.post(reverse(ADD), new(acme_rows, TRAIT, name="Another")).content.decode()
    assert "A workspace can have at most 100 custom segments." in html
    # One more than allowed, from before the limit existed.
    Segment.objects.create(workspace=workspace, scope="account", name="Old", conditions=[])
    mine = Segment.objects.get(workspace=workspace, name="Mine")
    assert member.post(page(mine), filled_in(TRAIT, name="Ours")).status_code == 302
    custom = Segment.objects.filter(workspace=workspace, is_default=False)
    assert custom.count() == MAX_CUSTOM_SEGMENTS + 1
    assert custom.filter(name="Ours").exists()


def test_saving_shows_the_members(member: Client, acme_rows: Rows) -> None:
    members = f"{reverse('admin:engagement_user_changelist')}?workspace={acme_rows.workspace.pk}"
    answer = member.post(reverse(ADD), new(acme_rows, TRAIT))
    segment = Segment.objects.get(name="Mine")
    assert answer["Location"] == f"{members}&segment={segment.pk}"
    answer = member.post(page(segment), filled_in(TRAIT, name="Ours"))
    assert answer["Location"] == f"{members}&segment={segment.pk}"
    assert f"{members}&amp;segment={segment.pk}" in member.get(page(segment)).content.decode()
    # One's own segments come before the default ones.
    html = member.get(reverse(LIST)).content.decode()
    assert html.index("Ours") < html.index("Most Engaged")


def test_a_new_segment_starts_with_the_conditions_in_its_address(
    member: Client, acme_rows: Rows
) -> None:
    """So that a page can offer to make a segment of what it shows."""
    place: dict[str, Any] = {"workspace": acme_rows.workspace.pk, "scope": "user"}
    rule = {"match": "any", "conditions": [{"kind": "trend", "trend": "falling"}]}
    html = member.get(reverse(ADD), {**place, "rule": json.dumps(rule)}).content.decode()
    assert '<option value="trend" selected>' in html and '<option value="any" selected>' in html
    for made_up in ("{", "[]", "[" * 3000, '{"conditions": [{"kind": "magic"}]}', '{"match": 1}'):
        html = member.get(reverse(ADD), {**place, "rule": made_up}).content.decode()
        assert 'name="conditions-TOTAL_FORMS" value="1"' in html, made_up


def test_a_segment_is_changed_and_deleted(member: Client, acme_rows: Rows) -> None:
    segment = acme_rows.segment
    assert member.post(page(segment), filled_in(TRAIT, name="New name")).status_code == 302
    segment.refresh_from_db()
    assert (segment.name, len(segment.conditions), segment.scope) == ("New name", 1, "user")
    history = reverse("admin:engagement_segment_history", args=[segment.pk])
    assert "conditions" in member.get(history).content.decode()
    delete = reverse("admin:engagement_segment_delete", args=[segment.pk])
    assert member.post(delete, {"post": "yes"}).status_code == 302
    assert not Segment.objects.filter(pk=segment.pk).exists()


# --- Looking before saving ----------------------------------------------------------------------


def test_the_buttons_look_and_save_nothing(member: Client, acme_rows: Rows) -> None:
    a_user(acme_rows.product, "second-user", acme_rows.workspace, acme_rows.account)
    seats = new(acme_rows, ADMINS_OF_SEATS, name="")
    html = member.post(reverse(ADD), {**seats, "_preview": "1"}).content.decode()
    assert "<strong>2 users</strong> match" in html and "second-user" in html
    assert "errornote" not in html and "This field is required" not in html
    html = member.post(reverse(ADD), {**seats, "_add_condition": "1"}).content.decode()
    assert 'name="conditions-1-what"' in html and "<strong>2 users</strong>" in html
    segment = acme_rows.segment
    member.post(page(segment), {**filled_in(ADMINS_OF_SEATS, name="Changed"), "_preview": "1"})
    segment.refresh_from_db()
    assert segment.name == "acme segment" and not Segment.objects.filter(name="").exists()


def test_each_of_several_conditions_is_counted_alone(member: Client, acme_rows: Rows) -> None:
    a_user(acme_rows.product, "second-user", acme_rows.workspace, acme_rows.account)
    rows = [ADMINS_OF_SEATS, {**TRAIT, "text": "no such plan"}]
    html = member.post(reverse(ADD), {**new(acme_rows, *rows), "_preview": "1"}).content.decode()
    alone = re.findall(r'<td class="number">(\d+)</td><th scope="row">Trait “(\w+)”', html)
    assert "No users match." in html and alone == [("2", "seats"), ("0", "plan")]
    html = member.post(reverse(ADD), {**new(acme_rows, rows[0]), "_preview": "1"}).content.decode()
    assert "Each condition alone" not in html


def test_the_values_of_a_trait_are_suggested_with_their_counts(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    """With a script as one chooses the trait, without one after a preview."""
    for number in range(3):
        a_user(acme_rows.product, f"user-{number}", acme_rows.workspace, acme_rows.account)
    User.objects.filter(external_id__startswith="user-").update(traits={"plan": "<Basic>"})
    html = member.post(
        reverse(ADD), {**new(acme_rows, {**TRAIT, "text": ""}), "_preview": "1"}
    ).content.decode()
    assert '<option value="&lt;Basic&gt;">3</option>' in html
    query: dict[str, Any] = {"workspace": acme_rows.workspace.pk, "scope": "user", "trait": "plan"}
    values = reverse("admin:engagement_segment_values")
    fragment = member.get(values, {**query, "prefix": "conditions-4"}).content.decode()
    assert '<datalist id="conditions-4-values">' in fragment and "&lt;Basic&gt; (3)" in fragment
    for made_up in (
        {"prefix": '"><script>'},
        {"prefix": "conditions-0", "workspace": globex_rows.workspace.pk},
        {"prefix": "conditions-0", "scope": "everybody"},
        {"prefix": "conditions-0", "trait": "a\0"},
    ):
        assert member.get(values, {**query, **made_up}).status_code == 404, made_up


def test_a_condition_is_removed_by_its_button_and_the_others_stay(
    member: Client, acme_rows: Rows
) -> None:
    segment = acme_rows.segment
    html = member.get(page(segment)).content.decode()
    assert re.findall(r'name="_remove_condition" value="(\w+)"', html)[:2] == ["0", "1"]
    event = {"what": "event", "event": "opened", "event_is": "done", "times": "2", "days": ""}
    three = filled_in(TRAIT, event, ADMINS_OF_SEATS, name="acme segment")
    html = member.post(page(segment), {**three, "_remove_condition": "1"}).content.decode()
    for row in (0, 1):
        (what,) = re.findall(rf'<select name="conditions-{row}-what".*?</select>', html, re.S)
        assert 'value="trait" selected' in what
    assert 'name="conditions-TOTAL_FORMS" value="2"' in html and "conditions-2-what" not in html
    assert 'value="pro"' in html and 'value="opened"' not in html
    # A preview saves nothing. Saving stores what the page shows.
    segment.refresh_from_db()
    assert len(segment.conditions) == 2 and segment.conditions[0]["kind"] == "event"


def test_the_last_condition_of_an_audience_is_removed_and_nobody_is_left_out(
    member: Client, acme_rows: Rows
) -> None:
    workspace = acme_rows.workspace
    Workspace.objects.filter(pk=workspace.pk).update(
        audience={
            "match": "all",
            "conditions": [{"kind": "trait", "trait": "plan", "operator": "is_set"}],
        }
    )
    address = reverse("admin:engagement_workspace_change", args=[workspace.pk])
    scoring = {"name": "Default", "lookback_days": 7, "alarm_level": 2, "default_weight": 1}
    weights = {"weights-TOTAL_FORMS": 0, "weights-INITIAL_FORMS": 0}
    rule = filled_in({"what": "trait", "trait": "plan", "trait_is": "is_set"})
    response = member.post(address, {**rule, **scoring, **weights, "_remove_condition": "0"})
    assert 'name="conditions-TOTAL_FORMS" value="0"' in response.content.decode()
    assert member.post(address, {**filled_in(), **scoring, **weights}).status_code == 302
    workspace.refresh_from_db()
    assert workspace.audience == {}


@each("pressed", ["7", "-1", "x", "", "9" * 40])
@leaves_no_rows
def test_a_made_up_button_removes_nothing(member: Client, acme_rows: Rows, pressed: str) -> None:
    fields = {**filled_in(TRAIT, name="acme segment"), "_remove_condition": pressed}
    html = member.post(page(acme_rows.segment), fields).content.decode()
    assert 'name="conditions-TOTAL_FORMS" value="1"' in html and 'value="pro"' in html


def test_enter_presses_no_button_that_removes(member: Client, acme_rows: Rows) -> None:
    """Enter presses the first button of the form."""
    html = member.get(page(acme_rows.segment)).content.decode()
    form = html.split('id="segment_form"')[1]
    assert re.findall(r'<button type="submit" name="(\w+)"', form)[0] == "_preview"


def preview(client: Client, workspace: Workspace, scope: str, *rows: dict[str, Any]) -> Any:
    address = reverse("admin:engagement_segment_preview")
    return client.post(f"{address}?workspace={workspace.pk}&scope={scope}", filled_in(*rows))


def test_members_are_shown_while_one_writes(member: Client, acme_rows: Rows) -> None:
    workspace = acme_rows.workspace
    assert (
        "1 user</strong> matches"
        in preview(member, workspace, "user", ADMINS_OF_SEATS).content.decode()
    )
    nobody = preview(member, workspace, "user", TRAIT).content.decode()
    assert "No users match." in nobody and "<table>" not in nobody
    accounts = preview(member, workspace, "account", {"what": "active"}).content.decode()
    assert "1 account</strong> matches" in accounts and "acme-account" in accounts
    nothing = preview(member, workspace, "user").content.decode()
    assert "Choose a condition" in nothing
    page = preview(member, workspace, "user", TRAIT, {**TRAIT, "text": ""}).content.decode()
    assert "Condition 2: Enter the text to compare with." in page


def test_what_takes_too_long_is_not_waited_for(
    root: Client, acme_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Q(IsNull(Func(Value(1.0), function="pg_sleep"), False))
    monkeypatch.setattr("engagement.segments.members.rule_filter", lambda *_: slow)
    monkeypatch.setattr("console.rules.previews.PREVIEW_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr("console.segments.COUNT_TIMEOUT_SECONDS", 0.05)
    html = root.get(page(acme_rows.segment)).content.decode()
    assert "This count is taking too long" in html and "This list is taking too long" in html
    assert root.get(reverse(LIST)).status_code == 200
    assert Segment.objects.filter(pk=acme_rows.segment.pk).exists()


# --- Nothing of others --------------------------------------------------------------------------


def test_no_other_products_workspace_is_offered_taken_or_looked_into(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    theirs = globex_rows.workspace
    assert "Globex" not in member.get(reverse(ADD)).content.decode()
    assert "Globex" not in member.get(reverse(LIST)).content.decode()
    parameters: dict[str, Any] = {"workspace": theirs.pk, "scope": "user"}
    assert "globex" not in member.get(reverse(ADD), parameters).content.decode().lower()
    data = {**new(acme_rows, TRAIT), "workspace": theirs.pk}
    refused = member.post(reverse(ADD), data).content.decode()
    assert "Select a valid choice" in refused and "globex" not in refused.lower()
    assert preview(member, theirs, "user", ADMINS_OF_SEATS).status_code == 404
    own = {**parameters, "workspace": acme_rows.workspace.pk, "like": globex_rows.segment.pk}
    assert "globex" not in member.get(reverse(ADD), own).content.decode()
    moved = filled_in(TRAIT, name="Moved", workspace=theirs.pk, scope="account")
    assert member.post(page(acme_rows.segment), moved).status_code == 302
    acme_rows.segment.refresh_from_db()
    assert (acme_rows.segment.workspace, acme_rows.segment.scope) == (acme_rows.workspace, "user")
    assert not Segment.objects.filter(workspace=theirs, name__in=("Mine", "Moved")).exists()


@each("query", ["", "?workspace=x&scope=user", "?workspace=1", "?scope=user"])
@leaves_no_rows
def test_made_up_addresses_are_not_found(root: Client, acme_rows: Rows, query: str) -> None:
    address = reverse("admin:engagement_segment_preview")
    assert root.post(f"{address}{query}", filled_in(TRAIT)).status_code == 404
    assert root.get(address).status_code == 405


def test_a_viewer_creates_and_changes_no_segment(reader: Client, acme_rows: Rows) -> None:
    assert reader.get(reverse(ADD)).status_code == 403
    assert reader.post(reverse(ADD), new(acme_rows, TRAIT)).status_code == 403
    assert reader.post(page(acme_rows.segment), filled_in(TRAIT)).status_code == 403
    html = reader.get(page(acme_rows.segment)).content.decode()
    assert "acme event" in html and "conditions-TOTAL_FORMS" not in html
    assert "Duplicate" not in html
    assert preview(reader, acme_rows.workspace, "user", TRAIT).status_code == 403


def test_the_list_shows_how_members_moved_and_folds_default_segments(
    reader: Client, acme_rows: Rows
) -> None:
    segment, today = acme_rows.segment, timezone.now().date()
    for ago, members in ((20, 4), (8, 30), (1, 42), (40, 9)):
        DayFigures.objects.create(
            workspace=acme_rows.workspace,
            segment_id=segment.pk,
            day=today - timedelta(days=ago),
            score_set_id=1,
            **{f"{segment.scope}s": members},
        )
    html = reader.get(reverse(LIST)).content.decode()
    (row,) = [each for each in html.split("<tr>") if f"/{segment.pk}/change/" in each]
    assert "+12 (+40%) in 7 days" in row and "<svg" in row and "eds-default" not in row
    defaults = Segment.objects.filter(workspace=acme_rows.workspace, is_default=True).count()
    assert f'<details class="eds-defaults"><summary>{defaults} default</summary>' in html
    assert html.count('class="eds-default"') == defaults
    # Those that somebody looks for are shown.
    html = reader.get(reverse(LIST), {"q": "Most Engaged"}).content.decode()
    assert '<details class="eds-defaults" open>' in html
