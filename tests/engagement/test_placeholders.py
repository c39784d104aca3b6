"""An id that stands for nobody joins nobody and identifies nobody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.messages import (
    CountStatement,
    Group,
    Identify,
    MembershipStatement,
    Message,
    Rejection,
    RejectionReason,
    Statement,
    SubjectStatement,
    Track,
)
from engagement.models import Account, Product, User
from engagement.recording.placeholders import PLACEHOLDERS, is_placeholder
from engagement.recording.record import record
from tests.cases import each
from tests.engagement.history import NOON, alias, group, identify, received, state, track

pytestmark = pytest.mark.django_db


def recorded(product: Product, *messages: Statement) -> list[Rejection]:
    return record(received(product, messages))  # type: ignore[arg-type]


def names(model: type[User | Account]) -> set[str]:
    return set(model.objects.values_list("external_id", flat=True))


@given(st.sampled_from(sorted(PLACEHOLDERS)), st.sampled_from(["", '"', "'", " ", "`"]), st.data())
def test_case_quotes_and_spaces_do_not_matter(id: str, around: str, data: st.DataObject) -> None:
    spelling = "".join(data.draw(st.sampled_from([c.lower(), c.upper()])) for c in id)
    assert is_placeholder(f"{around}{spelling}{around}")


@each(
    "id",
    [
        "1",
        "00",
        "-2",
        "0.0",
        "10",
        "user 1",
        "tester",
        "id1",
        "anonymous@example.com",
        "Nils",
        "ada",
    ],
)
def test_other_ids_are_somebodys(id: str) -> None:
    assert not is_placeholder(id)


def test_what_is_about_nobody_leaves_nothing(acme: Product) -> None:
    messages: list[Statement] = [
        identify("Anonymous", group="initech", plan="pro"),
        track("null", group="initech"),
        track('"undefined"'),
        group("[object Object]", user="ada", plan="pro"),
        alias("anon", "ada"),
        alias("ada", "0"),
        identify("guest", group="none"),
        SubjectStatement(NOON, NOON, True, "nil"),
        MembershipStatement("ada", "true", NOON),
        CountStatement("NaN", "opened", NOON, 3),
        CountStatement("ada", "opened", NOON, 3, "-1"),
    ]
    before = state(acme)
    result = recorded(acme, *messages)
    assert [each.message.message for each in result] == messages
    assert {each.reason for each in result} == {RejectionReason.PLACEHOLDER}
    assert state(acme) == before


def test_a_placeholder_beside_somebody_is_left_out(acme: Product) -> None:
    result = recorded(
        acme,
        Identify("ada", NOON, {"plan": "pro"}, "undefined"),
        Track("ada", "opened", NOON, "null"),
        Group("initech", NOON, {"plan": "free"}, "anonymous"),
    )
    assert [(each.reason, each.detail) for each in result] == [
        (RejectionReason.LEFT_OUT, f"{placeholder} was left out; the rest was recorded")
        for placeholder in ("undefined", "null", "anonymous")
    ]
    assert (names(User), names(Account)) == ({"ada"}, {"initech"})
    assert [event[1:] for event in state(acme)["events"]] == [("ada", "opened", NOON, "")]
    assert Account.objects.get().traits == {"plan": "free"}


def test_forty_users_who_name_one_placeholder_stay_forty(acme: Product) -> None:
    people = [f"u{number}" for number in range(40)]
    for person in people:
        messages: list[Message] = [identify(person), alias("anon", person), track(person)]
        assert [each.reason for each in recorded(acme, *messages)] == [RejectionReason.PLACEHOLDER]
    assert names(User) == set(people)
    assert not User.objects.filter(joined_to__isnull=False).exists()
