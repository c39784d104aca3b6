"""Adoption is a share of the event names that have a weight, or that identified users did."""

from datetime import timedelta
from typing import Any

import pytest

from core.database import sql
from engagement.messages import Message
from engagement.models import EventName, EventWeight, Product, ScoreSet, UserEngagement, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from engagement.scores import event_names
from tests.engagement.history import NOON, identify, tell, track
from tests.jobs import run_job

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
MISSPELT = [f"Opned {number}" for number in range(8)]


@pytest.fixture
def scored(acme: Product) -> Product:
    """Acme with three event names, of which ann did one and bob two."""
    tell(acme, identify("ann"), identify("bob"))
    tell(acme, track("ann", "opened"), track("bob", "shared"), track("bob", "printed"))
    rescore(NOON)
    return acme


def adoption(product: Product, user: str, workspace: str = "Default") -> float:
    scores = Workspace.objects.select_related("scores").get(product=product, name=workspace).scores
    assert scores is not None
    row = UserEngagement.objects.get(score_set=scores, user__external_id=user)
    return row.name_count / scores.scored_event_name_count


def weigh(workspace: Workspace, *names: str) -> None:
    for name in names:
        event_name, _ = EventName.objects.get_or_create(product=workspace.product, name=name)
        EventWeight.objects.create(workspace=workspace, event_name=event_name, weight=5)
    sets.request_score_set(workspace.pk)


def record_and_score(product: Product, *messages: Message, minutes: float = 1) -> None:
    tell(product, *messages)
    rescore(NOON + minutes * MINUTE)


def test_names_with_a_weight_in_another_workspace_only_do_not_count(scored: Product) -> None:
    other = Workspace.objects.create(product=scored, name="Other")
    weigh(other, *MISSPELT)
    default = scored.workspaces.get(name="Default")
    sets.request_score_set(default.pk)
    rescore(NOON + MINUTE)
    assert adoption(scored, "ann") == 1 / 3
    assert adoption(scored, "ann", "Other") == 1 / 11
    EventWeight.objects.filter(workspace=other).delete()
    other.delete()
    sets.request_score_set(default.pk)
    rescore(NOON + 2 * MINUTE)
    assert adoption(scored, "ann") == 1 / 3


def test_names_done_by_unidentified_users_do_not_count_until_one_is_identified(
    scored: Product,
) -> None:
    record_and_score(scored, track("zed", "exported"), track("ann", "opened"))
    assert adoption(scored, "ann") == 1 / 3
    record_and_score(scored, identify("zed"), minutes=2)
    assert adoption(scored, "ann") == 1 / 4


def test_a_name_done_long_ago_counts_as_soon_as_it_is_recorded(
    scored: Product,
) -> None:
    record_and_score(scored, track("bob", "archived", hours=-24 * 60))
    assert adoption(scored, "ann") == 1 / 4


def test_a_name_that_only_a_forgotten_user_did_stops_counting_the_next_day(scored: Product) -> None:
    subject = SubjectRef(scored.pk, SubjectScope.USER, "bob")
    forgetting.forget(subject, NOON)
    run_job(ERASE_FORGOTTEN, NOON)
    rescore(NOON + timedelta(days=1))
    assert adoption(scored, "ann") == 1.0


def test_another_user_replaces_a_forgotten_one_in_done_by(scored: Product) -> None:
    record_and_score(scored, track("ann", "shared"))
    assert EventName.objects.filter(name="shared").get().done_by
    forgetting.forget(SubjectRef(scored.pk, SubjectScope.USER, "bob"), NOON)
    run_job(ERASE_FORGOTTEN, NOON)
    rescore(NOON + timedelta(days=1))
    assert adoption(scored, "ann") == 2 / 2


def test_names_of_an_older_database_count_until_they_are_checked(scored: Product) -> None:
    EventName.objects.create(product=scored, name="never done")
    EventName.objects.filter(product=scored).update(done_by=None)
    scores = ScoreSet.objects.get(state="current")
    assert event_names.count_scored_names(scores) == 4
    rescore(NOON + timedelta(days=1))
    assert event_names.count_scored_names(scores) == 3


def test_the_daily_counts_are_searched_only_for_names_in_question(
    scored: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    execute = sql.execute

    def note(statement: Any, *arguments: Any, **options: Any) -> int:
        statements.append(statement)
        return execute(statement, *arguments, **options)

    monkeypatch.setattr(sql, "execute", note)
    rescore(NOON + timedelta(days=1))
    record_and_score(scored, track("ann", "opened", 24), minutes=24 * 60 + 1)
    assert statements
    assert not [statement for statement in statements if "UPDATE engagement_eventname" in statement]
