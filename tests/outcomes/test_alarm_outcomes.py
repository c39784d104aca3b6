"""Closed alarms as outcomes: kept or lost, and what is left out."""

from datetime import timedelta
from typing import Any

import pytest

from access.work import settings
from access.work.settings import Means, Result, WorkSettings
from engagement.models import AlarmWork, Product, Workspace
from outcomes.chances.cases import kinds_of
from outcomes.kinds import Exclusion, Kind
from outcomes.reading import read_outcomes
from outcomes.settings import kinds_with_data
from tests.engagement.history import NOON

pytestmark = pytest.mark.django_db
TODAY = NOON.date()


def close(workspace: Workspace, account_id: int, result: str, days: int, **fields: Any) -> None:
    at = NOON - timedelta(days=days)
    values = {"signal": "fall", "closed_at": at, "closed_by": "maya", **fields}
    AlarmWork.objects.create(
        product_id=workspace.product_id,
        workspace=workspace,
        account_id=account_id,
        since=at.date() - timedelta(days=9),
        seen_on=at.date(),
        result=result,
        **values,
    )


@pytest.fixture
def workspace(acme: Product) -> Workspace:
    own = WorkSettings(results=(Result("upsold", Means.GOOD), Result("gone", Means.BAD)))
    Product.objects.filter(pk=acme.pk).update(work=settings.to_json(own))
    return Workspace.objects.select_related("product").get(product=acme)


def test_results_are_good_or_bad_or_left_out(workspace: Workspace, globex: Product) -> None:
    assert Kind.ALARM not in kinds_with_data(workspace.product)
    results = ("saved", "lost", "upsold", "gone", "contacted", "false alarm", "deleted since")
    for number, result in enumerate(results):
        close(workspace, number, result, days=number)
    close(workspace, 20, "saved", days=2000)
    close(workspace, 21, "", days=1, closed_at=None)
    close(globex.workspaces.get(), 22, "saved", days=1)
    own = read_outcomes(workspace, Kind.ALARM, TODAY)
    assert {each.account_id: each.is_good for each in own.outcomes} == {
        0: True, 1: False, 2: True, 3: False,
    }  # fmt: skip
    assert own.excluded == {Exclusion.OPEN: 2, Exclusion.FALSE_ALARM: 1}
    assert [each.day for each in own.outcomes] == [TODAY - timedelta(days=n) for n in (3, 2, 1, 0)]
    lost = own.outcomes[2]
    assert (lost.result, lost.began_on) == ("lost", lost.day - timedelta(days=9))
    assert not lost.is_answered(lost.day) and lost.is_answered(TODAY)
    assert own.sampled_of is None
    # What is known later is no outcome yet.
    assert len(read_outcomes(workspace, Kind.ALARM, TODAY - timedelta(days=2)).outcomes) == 2


def test_many_are_sampled_evenly(workspace: Workspace) -> None:
    for number in range(10):
        close(workspace, number, "saved", days=number)
    own = read_outcomes(workspace, Kind.ALARM, TODAY, limit=4)
    assert (len(own.outcomes), own.sampled_of) == (4, 10)


def test_alarms_are_outcomes_and_no_chances(workspace: Workspace) -> None:
    close(workspace, 1, "saved", days=1)
    assert Kind.ALARM in kinds_with_data(workspace.product)
    assert Kind.ALARM not in kinds_of(workspace)
