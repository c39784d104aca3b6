"""How many users and accounts did each event and used each feature, by day, and who started and
stopped: the figures of the nights agree with the messages, whenever and however these arrive."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.messages import Alias, Identify, Message, Track
from engagement.models import (
    Account,
    AccountUse,
    EventName,
    Feature,
    LateUse,
    Product,
    ScoreSet,
    SubjectChange,
)
from engagement.orders import matches as stored
from engagement.recording.jobs import REATTRIBUTE
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.rescoring.rescore import rescore
from engagement.rules.rules import parse_rule
from engagement.scopes import ACCOUNTS
from engagement.segments import members
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, identify, tell, track
from tests.jobs import run_job
from tests.trends import plain_usage
from tests.trends.plain_usage import ANYTHING, Sums
from trends.models import UsageDay
from trends.usage import features, reading
from trends.usage.nights import JOB
from trends.usage.reading import Thing

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
TODAY = NOON.date()
FEATURES = {"Reports": ("exported", "printed"), "Editing": ("saved",)}

users = st.sampled_from(["ann", "bob", "cem"])
# Some of these are the same people, once an alias says so.
ids = st.sampled_from(["ann", "bob", "cem", "anonymous ann", "anonymous bob"])
groups = st.sampled_from(["acme", "globex", "initech"])
# Around the ends of both spans of 28 days, and long before.
days_ago = st.sampled_from([0, 0, 1, 1, 2, 27, 28, 29, 55, 56, 57, 58, 300])
times = st.builds(
    lambda days, hours: NOON - days * DAY + timedelta(hours=hours), days_ago, st.integers(-2, 2)
)
events = st.sampled_from(["exported", "printed", "saved", "opened"])
messages = st.one_of(
    st.builds(Track, ids, events, times),
    st.builds(Track, ids, events, times),
    st.builds(Identify, users, times, st.just({}), st.none() | groups),
    st.sampled_from(["ann", "bob"]).flatmap(
        lambda user: st.builds(Alias, st.just(user), st.just(f"anonymous {user}"), times)
    ),
)


def define_features(product: Product) -> None:
    for name, own in FEATURES.items():
        feature = Feature.objects.create(product=product, name=name)
        features.set_events(feature, own)


def at_two(today: date) -> datetime:
    return datetime.combine(today, datetime.min.time(), NOON.tzinfo) + timedelta(hours=2)


def night(product: Product, today: date) -> None:
    """Record and score what is left, let the day begin, and count the days before."""
    run_job(REATTRIBUTE, NOON)
    rescore(at_two(today))
    run_job(JOB, at_two(today))


def names(product: Product) -> dict[tuple[int, int], str]:
    of_events = EventName.objects.filter(product=product).values_list("pk", "name")
    of_features = Feature.objects.filter(product=product).values_list("pk", "name")
    return (
        {(0, pk): name for pk, name in of_events}
        | {(pk, 0): f"feature {name}" for pk, name in of_features}
        | {(0, 0): ANYTHING}
    )


def stored_figures(product: Product) -> dict[tuple[str, date], tuple[int, int]]:
    by_id = names(product)
    return {
        (by_id[row.feature_id, row.event_name_id], row.day): (row.users, row.accounts)
        for row in UsageDay.objects.filter(product=product)
        if row.users
    }


def stored_sums(product: Product, today: date) -> dict[str, Sums]:
    by_id = names(product)
    rows = UsageDay.objects.filter(product=product, day=today - DAY)
    return {
        by_id[row.feature_id, row.event_name_id]: Sums(
            row.used_accounts or 0, row.started_accounts or 0, row.stopped_accounts or 0
        )
        for row in rows
    }


def assert_agree(product: Product, history: list[Message], today: date) -> None:
    uses = plain_usage.uses(history)
    assert stored_figures(product) == plain_usage.figures(uses, FEATURES, today)
    expected = plain_usage.sums(uses, FEATURES, today)
    stored = stored_sums(product, today)
    nothing = Sums(0, 0, 0)
    for thing in {*expected, *stored}:
        assert stored.get(thing, nothing) == expected.get(thing, nothing), thing


@pytest.mark.slow
@given(
    st.lists(messages, max_size=14), st.lists(messages, max_size=8), st.lists(messages, max_size=4)
)
@examples(10)
@leaves_no_rows
def test_figures_agree_with_the_messages(
    acme: Product, first: list[Message], late: list[Message], later: list[Message]
) -> None:
    define_features(acme)
    history: list[Message] = [identify(user, -20_000) for user in ("ann", "bob")]
    for today, batch in ((TODAY, first), (TODAY + DAY, late), (TODAY + 2 * DAY, later)):
        history += batch
        tell(acme, *(history if today == TODAY else batch))
        rescore(at_two(today))
        assert_lists_agree(acme)
        night(acme, today)
    # What arrived after the day that it is about was counted in the night after it arrived.
    night(acme, TODAY + 3 * DAY)
    assert_agree(acme, history, TODAY + 3 * DAY)


def members_of(product: Product, operator: str, feature: str) -> list[int]:
    """The accounts that match the condition by daily counts, the lowest score first."""
    rule = parse_rule(
        {"conditions": [{"kind": "feature", "feature": feature, "operator": operator}]}, "account"
    )
    score_set = ScoreSet.objects.get(product=product, state="current")
    matches = members.members_filter(score_set, rule)
    rows = members.engagement_rows(score_set, "account").filter(matches)
    return list(rows.order_by("raw", "account_id").values_list("account_id", flat=True))


def stored_matches(product: Product) -> dict[tuple[str, str], list[int]]:
    """What the background finds for lists by a feature."""
    score_set = ScoreSet.objects.get(product=product, state="current")
    by_id = dict(Feature.objects.filter(product=product).values_list("pk", "name"))
    matches = {}
    for column in stored.standard_columns(score_set):
        _, feature, operator, _ = column.split(":")
        ids = list(stored.matching_ids(score_set, ACCOUNTS, column))
        matches[operator, by_id[int(feature)]] = ids
    return matches


def assert_lists_agree(product: Product) -> None:
    matches = stored_matches(product)
    assert matches == {key: members_of(product, *key) for key in matches}
    assert len(matches) == len(FEATURES) * len(stored.OPERATORS)


def use(user: str, event: str, days: int) -> Message:
    return track(user, event, hours=-24 * days)


@pytest.fixture
def history(acme: Product) -> list[Message]:
    """Initech uses reports and edits no more, hooli has started to edit, and dan is alone."""
    define_features(acme)
    messages = [
        *(identify("ann", -10_000, group="initech"), identify("bob", -10_000, group="hooli")),
        *(identify("cem", -10_000, group="initech"), identify("dan", -10_000)),
        *(use("ann", "exported", 2), use("cem", "printed", 2), use("ann", "saved", 40)),
        *(use("bob", "saved", 3), use("bob", "exported", 60), use("dan", "saved", 1)),
    ]
    tell(acme, *messages)
    night(acme, TODAY)
    return messages


def test_a_feature_counts_who_did_any_of_its_events(acme: Product, history: list[Message]) -> None:
    assert_agree(acme, history, TODAY)
    assert stored_sums(acme, TODAY)["feature Reports"] == Sums(used=1, started=1, stopped=0)
    assert stored_sums(acme, TODAY)["feature Editing"] == Sums(used=1, started=1, stopped=1)
    reports, editing = (Thing.of(Feature.objects.get(name=name)) for name in ("Reports", "Editing"))
    figures = reading.figures(reports, TODAY - 3 * DAY, TODAY)
    assert (figures.users, figures.accounts) == ([0, 2, 0], [0, 1, 0])
    assert reading.sums(editing, TODAY) == reading.Sums(used=1, active=2, started=1, stopped=1)
    moved = [reading.started(editing, TODAY, 5), reading.stopped(editing, TODAY, 5)]
    assert [[(str(account), day) for account, day in each] for each in moved] == [
        [("hooli", TODAY - 3 * DAY)],
        [("initech", TODAY - 40 * DAY)],
    ]
    # Hooli stopped longer ago than that.
    assert reading.stopped(reports, TODAY, 5) == []


def test_the_accounts_of_a_list_by_a_feature_are_stored(
    acme: Product, history: list[Message]
) -> None:
    """Also those that came, began, or returned after the night, and after an edit."""
    names = dict(Account.objects.values_list("pk", "external_id"))
    matches = {key: {names[id] for id in ids} for key, ids in stored_matches(acme).items()}
    assert matches == {
        **{("uses", "Reports"): {"initech"}, ("uses", "Editing"): {"hooli"}},
        **{("stopped", "Reports"): {"hooli"}, ("stopped", "Editing"): {"initech"}},
        **{("never", "Reports"): set(), ("never", "Editing"): set()},
    }
    tell(acme, identify("eve", group="umbrella"), track("bob", "printed"), track("ann", "saved"))
    rescore(NOON)
    assert_lists_agree(acme)
    umbrella = Account.objects.get(external_id="umbrella").pk
    assert stored_matches(acme)["never", "Reports"] == [umbrella]
    features.set_events(Feature.objects.get(name="Reports"), ["printed"])
    assert_lists_agree(acme)
    night(acme, TODAY + DAY)
    assert_lists_agree(acme)
    tell(acme, use("eve", "printed", 5))
    rescore(at_two(TODAY + DAY))
    assert_lists_agree(acme)


def test_an_edited_feature_is_counted_again(acme: Product, history: list[Message]) -> None:
    reports = Feature.objects.get(name="Reports")
    features.set_events(reports, ["printed", "never sent"])
    assert not UsageDay.objects.filter(feature_id=reports.pk).exists()
    run_job(JOB, NOON)
    figures = reading.figures(Thing.of(reports), TODAY - 3 * DAY, TODAY)
    assert figures.users == [0, 1, 0]
    assert EventName.objects.get(name="exported").feature is None

    features.delete(reports)
    assert not EventName.objects.filter(feature=reports.pk).exists()


def test_a_forgotten_account_and_a_forgotten_user_leave_nothing(
    acme: Product, history: list[Message]
) -> None:
    for scope, name in ((SubjectScope.ACCOUNT, "hooli"), (SubjectScope.USER, "ann")):
        assert forget(SubjectRef(acme.pk, scope, name), NOON)
    rows = AccountUse.objects.select_related("account")
    assert {row.account.external_id for row in rows} == {"initech"}
    run_job(ERASE_FORGOTTEN, NOON)
    night(acme, TODAY + DAY)

    assert not LateUse.objects.exists()
    remaining = [each for each in history if getattr(each, "user_id", "") in ("cem", "dan")]
    assert_agree(acme, remaining, TODAY + DAY)


def test_a_night_of_one_product_changes_nothing_of_another(
    acme: Product, globex: Product, history: list[Message]
) -> None:
    define_features(globex)
    tell(globex, *history, use("bob", "exported", 1))
    before = list(UsageDay.objects.filter(product=acme).values_list())
    night(globex, TODAY)
    assert list(UsageDay.objects.filter(product=acme).values_list()) == before
    assert stored_sums(globex, TODAY)["feature Reports"] == Sums(2, 1, 0)


def test_accounts_that_use_a_feature_no_longer_are_stamped(
    acme: Product, history: list[Message]
) -> None:
    """What a reader of changes sees of them is different, though nobody did anything."""
    night(acme, TODAY + 25 * DAY)
    before = dict(SubjectChange.objects.values_list("subject_id", "stamp"))
    night(acme, TODAY + 26 * DAY)
    changed = SubjectChange.objects.filter(kind=SubjectChange.Kind.ACCOUNT)
    stamped = [row.subject_id for row in changed if row.stamp > before.get(row.subject_id, 0)]
    assert stamped == [Account.objects.get(external_id="initech").pk]
