"""Activation: who has done which steps agrees with the messages, in whatever order they arrive."""

from datetime import timedelta
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.jobs import run
from core.models import Job
from engagement import changes
from engagement.messages import Alias, Group, Identify, Message, ReceivedMessage, Track
from engagement.metric_names import Scope
from engagement.models import Account, Activation, Product, Segment, StepsDone, User
from engagement.recording.jobs import REATTRIBUTE
from engagement.recording.record import record
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.rescoring import activation, ranges, sets
from engagement.rescoring.jobs import ACTIVATION, ACTIVATION_FIGURES
from engagement.rescoring.rescore import rescore
from engagement.rules.rules import parse_rule
from engagement.rules.steps import Step
from engagement.scopes import get_kind
from engagement.scores.activation import current
from engagement.scores.activation_figures import Figures, preview
from engagement.segments.members import members_filter, segments_containing
from tests.cases import examples, leaves_no_rows
from tests.engagement import plain_activation
from tests.engagement.history import NOON, group, identify, tell, track
from tests.engagement.plain_activation import Reached
from tests.jobs import run_job, step_job

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
STEPS = [
    Step("Open", "event", "opened", within_days=2),
    Step("Often", "event", "saved", at_least=3, within_days=7),
    Step("Pay", "trait", "plan", operator="is_ignoring_case", value="pro", within_days=7),
    Step("Return", "event", "opened", at_least=2, unit="days", within_days=30),
    Step("Seats", "trait", "seats", operator="at_least", value=2, within_days=30),
]

ids = st.sampled_from(["ann", "bob", "cem", "anonymous ann"])
groups = st.sampled_from(["initech", "hooli"])
days_ago = st.sampled_from([0, 1, 1, 2, 3, 6, 7, 8, 29, 30, 31])
times = st.builds(
    lambda days, hours: NOON - days * DAY + timedelta(hours=hours), days_ago, st.integers(-2, 2)
)
traits = st.dictionaries(
    st.sampled_from(["plan", "seats"]), st.sampled_from(["Pro", "free", 1, 2, 3]), max_size=2
)
tracks = st.builds(Track, ids, st.sampled_from(["opened", "saved", "saved"]), times)
messages = st.one_of(
    tracks,
    tracks,
    st.builds(Identify, st.sampled_from(["ann", "bob"]), times, traits, st.none() | groups),
    st.builds(Group, groups, times, traits),
    st.builds(Alias, st.just("ann"), st.just("anonymous ann"), times),
)


@st.composite
def tellings(draw: st.DrawFn) -> tuple[list[Message], list[list[int]]]:
    """Messages, and their places in another order, split into batches."""
    drawn: list[Message] = [
        Identify("ann", NOON - 5 * DAY, {}, "initech"),
        *draw(st.lists(messages, min_size=1, max_size=20)),
    ]
    order = draw(st.permutations(range(len(drawn))))
    cuts = sorted(draw(st.sets(st.integers(1, len(drawn)), max_size=3)))
    batches = [order[a:b] for a, b in pairwise([0, *cuts, len(drawn)])]
    return drawn, [batch for batch in batches if batch]


def set_steps(product: Product, steps: list[Step], *scopes: Scope) -> None:
    for scope in scopes or ("user", "account"):
        workspace = product.workspaces.select_related("scores").get()
        activation.request(workspace, scope, steps)


def build(product: Product) -> None:
    rescore(NOON)
    run_job(ACTIVATION, NOON)


def stored(product: Product, scope: Scope) -> dict[str, Reached]:
    steps = current(product.workspaces.get().pk, scope)
    assert steps is not None
    model = User if scope == "user" else Account
    names = dict(model.objects.filter(product=product).values_list("pk", "external_id"))
    return {
        names[row.subject_id]: Reached(row.first_day, tuple(row.days))
        for row in StepsDone.objects.filter(product=product, activation=steps)
    }


@pytest.mark.slow
@given(tellings())
@examples(10)
@leaves_no_rows
def test_steps_agree_with_the_messages_in_any_order(
    acme: Product, telling: tuple[list[Message], list[list[int]]]
) -> None:
    history, batches = telling
    for place, batch in enumerate(batches):
        record([ReceivedMessage(acme.pk, each, NOON, history[each]) for each in batch])
        run_job(REATTRIBUTE, NOON)
        rescore(NOON)
        if place == 0:
            set_steps(acme, STEPS)
            build(acme)
    for scope in ("user", "account"):
        assert stored(acme, scope) == plain_activation.reached(history, scope, STEPS)


@pytest.fixture
def history(acme: Product) -> list[Message]:
    """Initech opened and saved, hooli only opened, long ago, and umbrella came yesterday."""
    messages: list[Message] = [
        *(identify("ann", -24 * 20, "initech"), identify("bob", -24 * 20, "hooli")),
        *(identify("cem", -24, "umbrella"), track("ann", "opened", -24 * 19)),
        *(track("ann", "saved", -24 * 18 + n) for n in range(3)),
        *(track("bob", "opened", -24 * 20), group("initech", -24 * 5, plan="PRO", seats=2)),
        *(track("ann", "opened", -24 * 2), track("cem", "saved", -24)),
    ]
    tell(acme, *messages)
    set_steps(acme, STEPS)
    build(acme)
    return messages


def figures(product: Product, scope: Scope = "account") -> Figures:
    steps = current(product.workspaces.get().pk, scope)
    assert steps is not None
    return msgspec.convert(steps.figures, Figures)


def test_figures_count_who_is_where(acme: Product, history: list[Message]) -> None:
    own = figures(acme)
    assert (own.total, own.activated, own.quartiles) == (3, 1, [18, 18, 18])
    opened, often, *_ = own.steps
    assert (opened.reached, opened.waiting, opened.late) == (2, 1, 0)
    assert (often.reached, often.waiting, often.late) == (1, 0, 1)
    assert opened.quartiles == [0, 0, 1]
    # A trait does not say since when.
    assert own.steps[2].quartiles == []
    first, *_, last = own.weeks
    assert (first.size, first.is_over) == (0, True)
    assert (last.size, last.reached, last.is_over) == (1, [0, 0, 0, 0, 0], False)
    assert [week.reached for week in own.weeks if week.size == 2] == [[2, 1, 1, 1, 1]]
    # The same from the rows of a what-if, which writes nothing.
    score_set = acme.workspaces.select_related("scores").get().scores
    assert score_set is not None
    ids = list(Account.objects.filter(product=acme).values_list("pk", flat=True))
    assert preview(score_set, "account", STEPS, ids, NOON.date()) == own


def test_figures_follow_and_the_days_make_late(acme: Product, history: list[Message]) -> None:
    tell(acme, track("cem", "opened", 1))
    rescore(NOON)
    run_job(ACTIVATION_FIGURES, NOON)
    assert figures(acme).steps[0].reached == 3
    rescore(NOON + 10 * DAY)
    run_job(ACTIVATION_FIGURES, NOON + 10 * DAY)
    often = figures(acme).steps[1]
    assert (often.waiting, often.late) == (0, 2)


def members(product: Product, scope: Scope, state: str, step: str | None = None) -> set[str]:
    score_set = product.workspaces.select_related("scores").get().scores
    assert score_set is not None
    kind, condition = get_kind(scope), {"kind": "activation", "state": state, "step": step}
    rule = parse_rule({"conditions": [condition]}, scope)
    rows = kind.engagement_rows(score_set).select_related(scope)
    segment = Segment(workspace_id=score_set.workspace_id, scope=scope, name="own")
    segment.conditions = [condition]
    own = {str(getattr(row, scope)) for row in rows.filter(members_filter(score_set, rule))}
    # One by one, they are in the same segments.
    assert own == {
        str(getattr(row, scope)) for row in rows if segments_containing(score_set, [segment], row)
    }
    return own


def test_a_condition_finds_who_is_at_a_step(acme: Product, history: list[Message]) -> None:
    assert members(acme, "account", "activated") == {"initech"}
    assert members(acme, "account", "stuck") == {"hooli"}
    assert members(acme, "account", "stuck", "Often") == {"hooli"}
    assert members(acme, "account", "stuck", "Open") == set()
    assert members(acme, "account", "on_the_way") == {"umbrella"}
    assert members(acme, "account", "on_the_way", "Open") == {"umbrella"}
    assert members(acme, "account", "on_the_way", "no such step") == set()
    # Users have traits of their own.
    assert members(acme, "user", "stuck", "Pay") == {"ann"}
    # Without steps, nobody is anywhere.
    set_steps(acme, [], "user")
    run_job(ACTIVATION, NOON)
    assert members(acme, "user", "stuck") == set()


def test_readers_see_old_steps_until_the_new_ones_are_complete(
    acme: Product, history: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "IDS_PER_RANGE", 1)
    set_steps(acme, [Step("Save", "event", "saved")], "account")
    run.request(ACTIVATION, NOON, Activation.objects.get(state=Activation.State.BUILDING).pk)
    parts = 0
    while Activation.objects.filter(state=Activation.State.BUILDING).exists():
        # What is scored meanwhile is in both.
        assert figures(acme).total == 3
        Job.objects.filter(kind=ACTIVATION).update(is_paused=True)
        tell(acme, track("bob", "saved", -24 * 19 + parts / 10))
        rescore(NOON)
        Job.objects.filter(kind=ACTIVATION).update(is_paused=False)
        step_job(ACTIVATION, NOON)
        parts += 1
    # Each id in a part of its own; some ids are nobody's.
    assert parts >= 3
    build(acme)
    assert stored(acme, "account") == {
        "initech": Reached(NOON.date() - 20 * DAY, (2,)),
        "hooli": Reached(NOON.date() - 20 * DAY, (1,)),
        "umbrella": Reached(NOON.date() - DAY, (0,)),
    }
    assert not StepsDone.objects.exclude(activation__state=Activation.State.CURRENT).exists()


def test_new_steps_and_new_days_stamp_who_looks_different(
    acme: Product, history: list[Message]
) -> None:
    before = changes.latest_stamp(acme.pk)
    set_steps(acme, [Step("Save", "event", "saved")], "account")
    build(acme)
    ids = set(Account.objects.filter(product=acme).values_list("pk", flat=True))
    assert set(changes.changed_ids(acme.pk, "account", before, 0, 10)) == ids


def test_with_an_audience_only_its_users_count(acme: Product, history: list[Message]) -> None:
    tell(acme, identify("dan", -24 * 20, "hooli", role="admin"))
    tell(acme, *(track("dan", "saved", -24 * 19 + n) for n in range(3)))
    build(acme)
    assert stored(acme, "account")["hooli"].days[1] == 1
    condition = {"kind": "trait", "trait": "role", "operator": "is", "value": "admin"}
    acme.workspaces.update(audience={"match": "all", "conditions": [condition]})
    sets.request_score_set(acme.workspaces.get().pk)
    build(acme)
    build(acme)
    assert stored(acme, "user").keys() == {"dan"}
    own = stored(acme, "account")
    assert own["hooli"].days == (None, 1, None, None, None)
    assert own["initech"].days == (None, None, 0, None, 0)


def test_forgetting_leaves_nothing(acme: Product, history: list[Message]) -> None:
    for scope, name in ((SubjectScope.ACCOUNT, "hooli"), (SubjectScope.USER, "ann")):
        assert forget(SubjectRef(acme.pk, scope, name), NOON)
    assert stored(acme, "account").keys() == {"initech", "umbrella"}
    assert stored(acme, "user").keys() == {"bob", "cem"}
    run_job(ERASE_FORGOTTEN, NOON)
    rescore(NOON)
    assert stored(acme, "account")["initech"].days[:2] == (None, None)


def test_steps_of_one_product_say_nothing_of_another(
    acme: Product, globex: Product, history: list[Message]
) -> None:
    before = list(StepsDone.objects.filter(product=acme).values_list())
    tell(globex, *history, track("bob", "saved", -24 * 20))
    set_steps(globex, STEPS)
    build(globex)
    assert list(StepsDone.objects.filter(product=acme).values_list()) == before
    assert figures(globex).total == 3


def test_a_deleted_workspace_takes_its_steps_along(acme: Product, history: list[Message]) -> None:
    acme.workspaces.get().delete()
    assert not StepsDone.objects.exists()
