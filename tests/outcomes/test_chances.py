"""What is known of an account on a day, and what is being decided about it."""

from datetime import date
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.database import sql
from engagement.models import Account, DailyCount, Product, User, Workspace
from engagement.rescoring.what_if import ScoringDefinition
from outcomes.chances import cases, features
from outcomes.chances.cases import AGES, RunningCase, day_of_past, kinds_of, running
from outcomes.chances.features import load_features, with_seats
from outcomes.chances.results import Fact, Feature
from outcomes.chances.texts import fact_text
from outcomes.kinds import Kind, Outcome
from outcomes.sources import licenses
from outcomes.sources.licenses import OutcomeRow
from tests.cases import each, examples, leaves_no_rows
from tests.engagement.history import NOON
from tests.outcomes.worlds import (
    DAY,
    TODAY,
    Count,
    World,
    current_set,
    definition,
    make_world,
    noon_of,
    score_as,
    weight_of,
)

pytestmark = pytest.mark.django_db

ACCOUNTS = ("hooli", "initech")
NAMES = ("opened", "shared", "paid")
CREATED = {"hooli": TODAY - 200 * DAY, "initech": TODAY - 20 * DAY}

counts = st.lists(
    st.builds(
        Count,
        st.sampled_from(ACCOUNTS),
        st.integers(1, 3),
        st.sampled_from(NAMES),
        st.integers(0, 60) | st.integers(0, 190),
        st.integers(1, 50),
    ),
    max_size=60,
    unique_by=lambda count: (count.account, count.user, count.event, count.days_ago),
)
days = st.integers(-5, 195).map(lambda ago: TODAY - ago * DAY)


def plain(
    world: World, own: ScoringDefinition, account: str, day: date
) -> tuple[float, ...] | None:
    """The features in plain Python."""
    of_account = [count for count in world.counts if count.account == account and count.day <= day]
    if not of_account:
        return None
    scored = [count for count in of_account if weight_of(own, count.event)]
    month = [count for count in scored if (day - count.day).days < 30]
    age = max(0, (day - world.created[account]).days)
    return (
        len({(count.user, count.day) for count in month if (day - count.day).days < 7}),
        len({(count.user, count.day) for count in month}),
        len({count.user for count in month}),
        len({count.event for count in month}),
        min(((day - count.day).days for count in scored), default=age),
        age,
    )


@examples(15)
@given(day_counts=counts, asked_days=st.lists(days, min_size=1, max_size=6), paid=st.integers(0, 1))
@leaves_no_rows
def test_features_agree_with_plain_ones(
    day_counts: list[Count], asked_days: list[date], paid: int
) -> None:
    world = make_world(Product.create_with_workspace("Acme"), day_counts, CREATED)
    own = definition(7, paid=paid, shared=0)
    score_as(world.product, own)
    pairs = [(world.accounts[name], day) for name in ACCOUNTS for day in asked_days]
    features_of = load_features(current_set(world), pairs)
    expected = {
        (world.accounts[name], day): values
        for name in ACCOUNTS
        for day in asked_days
        if (values := plain(world, own, name, day)) is not None
    }
    assert features_of == expected


def two_accounts(product: Product) -> World:
    day_counts = [
        Count(name, user, "opened", ago) for name in ACCOUNTS for user in (1, 2) for ago in (3, 12)
    ]
    return make_world(product, day_counts, CREATED)


def test_what_happens_later_changes_nothing(acme: Product) -> None:
    world = two_accounts(acme)
    score_as(acme, definition(7))
    pairs = [(pk, TODAY - 10 * DAY) for pk in world.accounts.values()]
    before = load_features(current_set(world), pairs)
    assert set(before.values()) == {(2, 2, 2, 1, 2, 190), (2, 2, 2, 1, 2, 10)}
    later = DailyCount.objects.filter(day__gt=TODAY - 10 * DAY)
    later.update(count=99)
    assert load_features(current_set(world), pairs) == before
    later.delete()
    assert load_features(current_set(world), pairs) == before


def test_users_count_as_they_are_identified_now(acme: Product, globex: Product) -> None:
    world = two_accounts(acme)
    other = make_world(globex, [Count("hooli", 1, "opened", 5)], CREATED)
    score_as(acme, definition(7))
    User.objects.filter(product=acme, external_id="hooli 2").update(is_identified=False)
    pairs = [(world.accounts["hooli"], TODAY), (other.accounts["hooli"], TODAY)]
    assert load_features(current_set(world), pairs) == {pairs[0]: (1, 2, 1, 1, 3, 200)}
    Account.objects.filter(pk=world.accounts["hooli"]).update(is_identified=False)
    assert load_features(current_set(world), pairs) == {}


@each(
    ("seats", "expected"),
    [
        (40, (40, 0.1)),
        (4, (4, 1)),
        (3, (3, 1)),
        (0, (0, nan)),
        (None, (nan, nan)),
        (-1, (nan, nan)),
    ],
)
def test_seats_and_the_share_in_use_follow_the_other_features(
    seats: int | None, expected: tuple[float, float]
) -> None:
    values = with_seats((9, 20, 4, 5, 1, 30), seats)
    assert len(values) == len(Feature) and values[:6] == (9, 20, 4, 5, 1, 30)
    assert values[6:] == pytest.approx(expected, nan_ok=True)


def test_the_share_of_the_seats_is_told_in_percent() -> None:
    fact = Fact(Feature.LICENSE_UTILIZATION, 0.4, 0.55, -0.12)
    assert fact_text(fact) == "40% of the seats in use; usual 55%"


def test_many_accounts_are_read_in_parts(acme: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    world = two_accounts(acme)
    score_as(acme, definition(7))
    pairs = [(pk, TODAY - n * DAY) for pk in world.accounts.values() for n in range(5)]
    at_once = load_features(current_set(world), pairs)
    monkeypatch.setattr(features, "PAIRS_PER_STATEMENT", 3)
    assert load_features(current_set(world), pairs) == at_once and len(at_once) == 10
    with pytest.raises(sql.StatementTimeout):
        load_features(current_set(world), pairs, lambda: True)


# --- What was decided ---------------------------------------------------------------------------


def outcome(day: date, began_on: date, answered_on: date | None = None) -> Outcome:
    return Outcome(1, day, True, "bought", day, answered_on, began_on)


BEGAN = date(2026, 5, 1)


@each(
    ("kind", "age", "own", "expected"),
    [
        (Kind.EVALUATION, 3, outcome(BEGAN + 30 * DAY, BEGAN), BEGAN + 3 * DAY),
        # Bought, or over, by then.
        (Kind.EVALUATION, 7, outcome(BEGAN + 30 * DAY, BEGAN, BEGAN + 7 * DAY), None),
        (Kind.EVALUATION, 7, outcome(BEGAN + 30 * DAY, BEGAN, BEGAN + 8 * DAY), BEGAN + 7 * DAY),
        (Kind.EVALUATION, 21, outcome(BEGAN + 14 * DAY, BEGAN), None),
        # It never had an end.
        (Kind.EVALUATION, 3, outcome(BEGAN, BEGAN), None),
        (Kind.RENEWAL, 60, outcome(BEGAN, BEGAN - 365 * DAY), BEGAN - 60 * DAY),
        (Kind.RENEWAL, 60, outcome(BEGAN, BEGAN - 365 * DAY, BEGAN - 60 * DAY), None),
        (Kind.MONTHLY_STAY, 30, outcome(BEGAN + 80 * DAY, BEGAN), BEGAN - 30 * DAY),
        (Kind.DORMANCY, 30, outcome(BEGAN, BEGAN), BEGAN - DAY),
        (Kind.TRAIT, 90, outcome(BEGAN + 20 * DAY, BEGAN), BEGAN - DAY),
    ],
)
def test_the_day_that_tells_is_before_the_answer(
    kind: Kind, age: int, own: Outcome, expected: date | None
) -> None:
    assert day_of_past(kind, age, own) == expected


# --- What is running ----------------------------------------------------------------------------


def an_open(
    license: str, began: int, ends: int, kind: Kind = Kind.EVALUATION, **values: object
) -> OutcomeRow:
    """What began so many days ago and ends in so many."""
    row = OutcomeRow(
        license,
        kind.value,
        TODAY + ends * DAY,
        "hooli",
        TODAY - began * DAY,
        None,
        None,
        None,
        "open",
        "open",
        12,
        None,
    )
    return row._replace(**values)  # type: ignore[arg-type]


def workspace_of(product: Product) -> Workspace:
    return Workspace.objects.select_related("scores", "product").get(product=product)


def by_age(product: Product, kind: Kind) -> dict[str, int]:
    """The age of the model that looks at each license."""
    return {
        case.license: age
        for age in AGES[kind]
        for case in running(workspace_of(product), kind, age, TODAY, None, 100)
    }


def store(product: Product, *rows: OutcomeRow) -> None:
    licenses.replace(product.pk, sorted({row.license for row in rows}), rows)
    licenses.follow(product.pk, 1)


@pytest.fixture
def scored(acme: Product) -> World:
    world = two_accounts(acme)
    score_as(acme, definition(7))
    return world


def test_an_evaluation_is_looked_at_on_the_last_complete_day_of_its_ages(scored: World) -> None:
    store(
        scored.product,
        an_open("began 3 days ago", 3, 27),
        an_open("began 4 days ago", 4, 26),
        an_open("began 14 days ago", 14, 16),
        an_open("began 15 days ago", 15, 15),
        an_open("extended", 80, 10),
        an_open("ends today", 30, 0),
        an_open("ended", 31, -1),
        an_open("had no end", 0, 0),
        an_open("cancelled", 10, 20, answered_on=TODAY - DAY),
        an_open("bought", 10, 20, known_on=TODAY, exclusion="", result="bought"),
        an_open("of a sandbox", 10, 20, exclusion="sandbox"),
        an_open("of nobody", 10, 20, cloud_id="nobody"),
    )
    assert by_age(scored.product, Kind.EVALUATION) == {
        "began 4 days ago": 3,
        "began 14 days ago": 7,
        "began 15 days ago": 14,
        "extended": 21,
        "ends today": 21,
    }
    (case,) = running(workspace_of(scored.product), Kind.EVALUATION, 3, TODAY, None, 100)
    assert case == RunningCase(
        scored.accounts["hooli"],
        "began 4 days ago",
        TODAY - 4 * DAY,
        TODAY + 26 * DAY,
        12,
        None,
        TODAY - DAY,
    )


def test_a_term_has_the_model_of_the_nearest_day(scored: World) -> None:
    ends = (0, 21, 22, 44, 46, 60, 104, 106, 125, 126)
    store(scored.product, *(an_open(f"in {n}", 300, n, Kind.RENEWAL, cents=500) for n in ends))
    assert by_age(scored.product, Kind.RENEWAL) == {
        **{"in 0": 14, "in 21": 14, "in 22": 14, "in 44": 30, "in 46": 60, "in 60": 60},
        **{"in 104": 90, "in 106": 120, "in 125": 120},
    }
    (case,) = [
        case
        for case in running(workspace_of(scored.product), Kind.RENEWAL, 30, TODAY, None, 100)
        if case.license == "in 44"
    ]
    assert (case.until, case.seats, case.cents) == (TODAY - DAY, 12, 500)


def test_a_monthly_license_has_one_case_by_its_quarter(scored: World) -> None:
    store(
        scored.product,
        an_open("monthly", 20, 10, Kind.MONTHLY_STAY),
        an_open("monthly", -40, 50, Kind.MONTHLY_STAY),
        an_open("next quarter", -26, 30, Kind.MONTHLY_STAY),
    )
    assert by_age(scored.product, Kind.MONTHLY_STAY) == {"monthly": 14, "next quarter": 30}


def test_parts_follow_each_other(scored: World) -> None:
    store(scored.product, *(an_open(f"E-{n}", 10, 20) for n in range(7)))
    workspace, after, parts = workspace_of(scored.product), None, []
    while True:
        part = running(workspace, Kind.EVALUATION, 7, TODAY, after, 3)
        parts.append([case.license for case in part])
        if (after := cases.after(part, 3)) is None:
            break
    assert parts == [["E-0", "E-1", "E-2"], ["E-3", "E-4", "E-5"], ["E-6"]]


def test_without_licenses_active_accounts_may_go_quiet(scored: World) -> None:
    workspace = workspace_of(scored.product)
    assert kinds_of(workspace) == [Kind.DORMANCY]
    quiet = Account.objects.create(
        product=scored.product,
        external_id="quiet",
        is_identified=True,
        first_seen_at=noon_of(TODAY - 90 * DAY),
        last_seen_at=NOON,
    )
    own = running(workspace, Kind.DORMANCY, 30, TODAY, None, 100)
    assert [case.account_id for case in own] == sorted(scored.accounts.values())
    assert quiet.pk not in {case.account_id for case in own}
    assert own[0][2:] == (TODAY, TODAY + 30 * DAY, None, None, TODAY - DAY)
    (second,) = running(workspace, Kind.DORMANCY, 30, TODAY, (own[0].account_id, ""), 100)
    assert second == own[1]
    store(scored.product, an_open("E-1", 10, 20))
    assert kinds_of(workspace_of(scored.product)) == list(licenses.KINDS)


def test_a_trait_that_is_not_bad_may_become_so(scored: World) -> None:
    product = scored.product
    product.history_traits = {"status": str(TODAY - 300 * DAY)}
    product.save()
    product.workspaces.update(outcomes={"trait": "status", "values": ["Churned"], "below": 5})
    workspace = workspace_of(product)
    assert kinds_of(workspace) == [Kind.TRAIT, Kind.DORMANCY]
    hooli, initech = (Account.objects.filter(external_id=name) for name in ACCOUNTS)
    for value, count in (("live", 1), ("churned", 0), ("4", 0), ("5", 1), (7, 1), ("", 0)):
        hooli.update(traits={"status": value})
        initech.update(traits={"status": "CHURNED"})
        own = running(workspace, Kind.TRAIT, 90, TODAY, None, 100)
        assert len(own) == count, value
        assert all(case.day == TODAY + 90 * DAY for case in own)
