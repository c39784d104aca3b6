"""On a cluster, what the service does for one product runs on the node that has the product.

``citus.multi_task_query_log_level = 'error'`` has every other statement fail.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from typing import LiteralString

import msgspec
import pytest
from django.db import connection, transaction
from django.test import Client
from psycopg.errors import Diagnostic

from core.database import sql, statistics
from core.jobs import run
from engagement import export
from engagement.messages import Message
from engagement.metric_names import Scope
from engagement.models import Activation, Product, Segment, StepsDone, TraitChange
from engagement.recording.record import record
from engagement.rescoring import activation, rescore
from engagement.rescoring.jobs import ACTIVATION, ACTIVATION_FIGURES
from engagement.rules import rules
from engagement.rules.steps import Step
from engagement.scopes import get_kind
from engagement.scores import sampling
from engagement.scores.activation import forget
from engagement.scores.activation_figures import preview
from engagement.search import lookup
from engagement.segments import counts
from engagement.segments.activation import activation_filter
from engagement.segments.chances import chance_filter
from engagement.segments.members import engagement_rows
from harness.processes import until
from ingestion.drain import message_ids
from outcomes.backtests import backtest, effect, storage
from outcomes.chances import storage as chances
from outcomes.forecasts import storage as forecasts
from outcomes.forecasts.results import Measure, month_after
from outcomes.kinds import Kind
from outcomes.settings import OutcomeSettings, to_json
from outcomes.sources import licenses
from outcomes.suggestions.suggesting import suggest
from tests.database import needs_citus
from tests.engagement.history import NOON, alias, group, identify, received, state, tell, track
from tests.jobs import run_job
from tests.outcomes.test_chances import an_open
from tests.outcomes.worlds import DAY, Count, Fate, decide, definition, make_world, score_as
from tests.readapi.scored import TODAY, account_id, fill, scores_of, user_id

pytestmark = [needs_citus, pytest.mark.django_db]


@contextmanager
def one_node() -> Iterator[None]:
    """Have each statement of the block fail that runs on more than one node."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL citus.multi_task_query_log_level = 'error'")
    yield
    with connection.cursor() as cursor:
        cursor.execute("RESET citus.multi_task_query_log_level")


def test_recording(acme: Product, globex: Product) -> None:
    """Also of a batch with messages of several products."""
    messages: list[Message] = [
        identify("ann", -9, "initech", plan="pro"),
        track("ann", "opened", -8),
        group("hooli", -7, "bob"),
        track("bob", "opened", -6, group="initech"),
        # A late membership moves events and their counts.
        identify("ann", -20, "hooli"),
        track("ann", "opened", -19),
        alias("ann", "annabel", -3),
        track("annabel", "closed", -2),
        msgspec.structs.replace(track("annabel", "closed", -1), message_id="first"),
    ]
    both = [*received(acme, messages), *received(globex, messages)]
    with one_node():
        unique, _ = message_ids.split_duplicates(both)
        record(unique)
        record([*received(globex, messages[:4]), *received(acme, messages[:4])])
    assert state(acme)["users"].keys() == {"annabel", "bob"}
    assert state(acme)["joined ids"] == state(globex)["joined ids"] == {"ann": "annabel"}


def test_scoring(acme: Product) -> None:
    fill(acme)
    tell(acme, track("ann", "opened", 1), identify("dan", 1, "hooli"))
    with one_node():
        scored, *_ = rescore._take_turn(acme.pk, TODAY, 1_000, lambda: False)
    assert scored


def test_activation(acme: Product, acme_token: str) -> None:
    """Steps are built, published, told of, counted, asked for, and replaced; forgotten subjects
    have none."""
    workspace = fill(acme)
    steps = [
        Step("Open", "event", "opened", at_least=2, unit="days", within_days=365),
        Step("Name", "trait", "name", within_days=365),
    ]
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    scopes: tuple[Scope, ...] = ("user", "account")
    with one_node():
        for scope in scopes:
            activation.request(workspace, scope, steps)
        run_job(ACTIVATION, NOON)
        # New steps replace those, whose rows are deleted by the next run.
        for scope in scopes:
            activation.request(workspace, scope, steps[:1])
        for _ in range(2):
            run_job(ACTIVATION, NOON)
        assert Activation.objects.filter(product=acme).count() == len(scopes)
        tell(acme, track("ann", "opened", 1), track("ann", "opened", -24))
        rescore._take_turn(acme.pk, TODAY, 1_000, lambda: False)
        run_job(ACTIVATION_FIGURES, NOON)
        rows = StepsDone.objects.filter(product=acme)
        assert rows.filter(reached=1).exists()
        scores = scores_of(workspace)
        for scope in scopes:
            ids = sampling.sample_subjects(scores, scope, 5, 5).ids
            assert preview(scores, scope, steps, ids, TODAY).total
            condition = rules.ActivationCondition("activated")
            matches = activation_filter(condition, scores, get_kind(scope), TODAY)
            assert engagement_rows(scores, scope).filter(matches).exists()
    for address in (
        f"workspaces/{workspace.pk}/activation",
        f"accounts/{account_id(acme, 'hooli')}?workspace_id={workspace.pk}&expand=activation",
    ):
        with one_node():
            response = client.get(f"/v2/{address}")
        assert response.status_code == 200, (address, response.content)
    user = user_id(acme, "ann")
    with one_node():
        forget(acme.pk, "user", user)
    assert not rows.filter(subject_id=user, activation__scope="user").exists()


def test_segments_search_and_export(acme: Product) -> None:
    scores = scores_of(fill(acme))
    with one_node():
        counts.recount(scores, NOON)
        assert [match.subject_id for match in lookup.find(acme.pk, "user", "ann")] == [
            user_id(acme, "ann")
        ]
        assert list(export._statements(acme.pk))
    assert Segment.objects.filter(workspace__product=acme).exists()


def test_the_read_api(acme: Product, acme_token: str) -> None:
    workspace = fill(acme)
    account, user = account_id(acme, "initech"), user_id(acme, "ann")
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    segments = Segment.objects.filter(workspace=workspace, scope="account")
    for address in (
        "/v2/accounts?",
        "/v2/users?",
        f"/v2/accounts/{account}?",
        f"/v2/users/{user}?",
        "/v2/accounts?domain=initech.example&",
        "/v2/users?email=ann@initech.example&",
        f"/v2/accounts?segment_id={segments[0].pk}&",
        "/v2/segments?",
    ):
        with one_node():
            response = client.get(f"{address}workspace_id={workspace.pk}")
        assert response.status_code == 200, (address, response.content)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("half_life", [None, 60])
def test_what_became_of_accounts(acme: Product, half_life: int | None) -> None:
    """Each kind of outcome, the scores of past days, suggested weights, and the history of
    traits."""
    names = [f"account {number}" for number in range(70)]
    counts = [
        Count(name, 1, event, ago, 1 + number % 7)
        for number, name in enumerate(names)
        for event, ago in (("opened", 15), ("shared", 70 + number), ("opened", 200))
    ]
    world = make_world(acme, counts, dict.fromkeys(names, TODAY - timedelta(days=400)))
    kinds = (Kind.RENEWAL, Kind.MONTHLY_STAY, Kind.EVALUATION)
    fates = [
        Fate(name, kind, 5 + n, n % 3 > 0, began_before=60)
        for kind in kinds
        for n, name in enumerate(names)
    ]  # fmt: skip
    with transaction.atomic(), one_node():
        decide(world, fates)
        decide(world, [Fate(names[0], Kind.RENEWAL, 9, False)], revision=2)
    history = {"status": f"{TODAY - timedelta(days=300)}"}
    Product.objects.filter(pk=acme.pk).update(history_traits=history)
    acme.workspaces.update(outcomes=to_json(OutcomeSettings(trait="status", values=("bad",))))
    score_as(acme, definition(30, 1, half_life, shared=3))
    workspace = acme.workspaces.select_related("scores", "product").get()
    with transaction.atomic(), one_node():
        tell(acme, group(names[0], -3000, status="good"), group(names[0], -2900, status="bad"))
        results = [backtest.run(workspace, kind, TODAY) for kind in Kind]
        suggestion = suggest(workspace, Kind.RENEWAL, TODAY)
        other = definition(30, 0, shared=2)
        backtest.run(workspace, Kind.RENEWAL, TODAY, other)
        segment = workspace.segments.filter(scope="account").first()
        backtest.run(workspace, Kind.RENEWAL, TODAY, segment=segment)
        storage.save(workspace, None, results[0], other, NOON)
        assert effect.would_have_predicted(scores_of(workspace), other, TODAY)
    numbers = {result.kind: result.horizons[0].outcomes for result in results}
    assert all(numbers[kind] for kind in (*kinds, Kind.DORMANCY)), numbers
    assert TraitChange.objects.filter(product=acme).count() == 2
    assert suggestion.suggested


@pytest.mark.django_db(transaction=True)
def test_chances_forecasts_and_what_asks_for_them(acme: Product, acme_token: str) -> None:
    """The jobs, conditions on chances, and what the read API says of them."""
    names = [f"past {number}" for number in range(60)]
    kinds = {Kind.EVALUATION: 30, Kind.RENEWAL: 365, Kind.MONTHLY_STAY: 90}
    counts = [
        Count(name, 1, "opened", ago) for name in [*names, "open"] for ago in (2, 15, 40, 100, 200)
    ]
    world = make_world(acme, counts, dict.fromkeys([*names, "open"], TODAY - 400 * DAY))
    fates = [
        Fate(name, kind, 1 + 2 * n, n % 2 > 0, began_before=began)
        for kind, began in kinds.items()
        for n, name in enumerate(names)
    ]
    decide(world, fates)
    ahead = [an_open(f"{kind} ahead", 10, 20, kind, cloud_id="open") for kind in kinds]
    licenses.replace(acme.pk, [row.license for row in ahead], ahead)
    score_as(acme, definition(7))
    workspace = acme.workspaces.select_related("scores", "product").get()
    month = month_after(TODAY, 0)
    with one_node():
        for day in (month_after(month, -1), TODAY):
            at = datetime.combine(day, time(12), UTC)
            for job in (chances.JOB, forecasts.JOB):
                assert run.finish(job, workspace.pk, lambda at=at: at)  # type: ignore[misc]
        own = forecasts.latest(workspace)[Kind.RENEWAL]
        assert own.months[0].terms and own.past[0].terms
        assert forecasts.decisive_terms(workspace, own, own.past[0], Measure.SEATS) == []
        forecasts.rename_licenses(acme.pk, ["of ahead"], "")
        scores = scores_of(workspace)
        for name in rules.CHANCES:
            condition = rules.ChanceCondition(name, "at_least", 1)
            matches = chance_filter(condition, scores)
            assert list(engagement_rows(scores, "account").filter(matches))
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    for address in ("chances", "chances?kind=renewal", "forecasts"):
        with one_node():
            response = client.get(f"/v2/workspaces/{workspace.pk}/{address}")
        assert response.status_code == 200 and response.json()["data"], address


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "message",
    [identify("ann", plan="pro"), track("ann"), group("initech", user="ann"), alias("ann", "eve")],
    ids=lambda message: type(message).__name__,
)
def test_a_batch_commits_in_two_phases(acme: Product, message: Message) -> None:
    """Otherwise a coordinator that dies between the commits keeps a recorded message waiting."""
    tell(acme, identify("bob"))
    with remote_commands() as commands, transaction.atomic():
        tell(acme, message)
    assert any("PREPARE TRANSACTION" in command for command in commands)


@pytest.mark.django_db(transaction=True)
def test_a_node_knows_a_large_product() -> None:
    old, new = (Product.create_with_workspace(name) for name in ("Acme", "Globex"))
    people = [identify(f"user {n}") for n in range(statistics.MANY_ROWS)]
    tell(old, *people)
    statistics.analyze()
    tell(new, *people)
    statistics._looked_at_products.clear()
    statistics.refresh_product(new.pk)
    assert "engagement_user" not in statistics._few_expected(new.pk)


_ROWS_ON_NODES: LiteralString = """
    SELECT sum(result::float8) FROM run_command_on_shards(
        'engagement_user', $$SELECT reltuples FROM pg_class WHERE oid = '%s'::regclass$$)
"""


@pytest.mark.django_db(transaction=True)
def test_nodes_analyze_tables_that_grew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MIN_CHANGED_ROWS", 20)
    monkeypatch.setattr(statistics, "MIN_CHANGED_SHARE", 0)
    monkeypatch.setattr(statistics, "NODES_INTERVAL", 0)
    statistics.analyze()
    before = sql.fetch(_ROWS_ON_NODES)[0][0]
    tell(Product.create_with_workspace("Acme"), *(identify(f"user {n}") for n in range(50)))

    def is_known() -> bool:
        # A node counts changes up to a second late.
        statistics.analyze_grown_tables()
        return bool(sql.fetch(_ROWS_ON_NODES)[0][0] >= before + 50)

    until(is_known, "the nodes to analyze their tables")


@contextmanager
def remote_commands() -> Iterator[list[str]]:
    """What the coordinator sends to the nodes during the block."""
    commands: list[str] = []

    def keep(notice: Diagnostic) -> None:
        commands.append(notice.message_primary or "")

    with connection.cursor() as cursor:
        cursor.execute("SET citus.log_remote_commands = on; SET client_min_messages = notice")
    connection.connection.add_notice_handler(keep)
    try:
        yield commands
    finally:
        connection.connection.remove_notice_handler(keep)
        with connection.cursor() as cursor:
            cursor.execute("RESET citus.log_remote_commands; RESET client_min_messages")
