"""Outcomes of licenses as they are stored and read: each once, and what is left out is counted."""

from datetime import date, timedelta
from typing import Any

import pytest

from engagement.models import Account, DailyCount, EventName, Product
from engagement.models.activity import NO_USER
from outcomes.kinds import Exclusion, Kind, OutcomeSet
from outcomes.models import LicenseOutcome
from outcomes.reading import available_kinds, read_outcomes
from outcomes.sources import licenses
from outcomes.sources.licenses import OutcomeRow
from tests.engagement.history import NOON

pytestmark = pytest.mark.django_db

TODAY = NOON.date()
DUE = date(2026, 6, 1)
DAY = timedelta(days=1)


def a_row(license: str = "E-1", day: date = DUE, **values: Any) -> OutcomeRow:
    known_on = values.pop("known_on", day)
    row: dict[str, Any] = {
        "license": license,
        "kind": "renewal",
        "day": day,
        "cloud_id": "site",
        "seats": 10,
    }
    row |= {"began_on": day - 365 * DAY, "known_on": known_on, "decided_on": known_on}
    row |= {"answered_on": None, "result": "renewed", "exclusion": "", "cents": None}
    return OutcomeRow(**row | values)


def store(product: Product, *rows: OutcomeRow) -> int:
    return licenses.replace(product.pk, sorted({row.license for row in rows}), rows)


def an_account(product: Product, name: str, first_active: date | None) -> Account:
    account = Account.objects.create(
        product=product, external_id=name, first_seen_at=NOON, last_seen_at=NOON
    )
    if first_active:
        event, _ = EventName.objects.get_or_create(product=product, name="opened")
        DailyCount.objects.create(
            product=product,
            user_id=NO_USER,
            account_id=account.pk,
            event_name=event,
            day=first_active,
            count=1,
            last_at=NOON,
        )
    return account


def read(product: Product, kind: Kind = Kind.RENEWAL, **options: Any) -> OutcomeSet:
    return read_outcomes(product.workspaces.get(), kind, options.pop("today", TODAY), **options)


def test_only_rows_that_differ_are_written(acme: Product) -> None:
    rows = [a_row(), a_row(day=DUE + 365 * DAY, result="open", exclusion="open", known_on=None)]
    assert store(acme, *rows) == 2
    assert store(acme, *rows) == 0
    assert store(acme, rows[0], rows[1]._replace(exclusion="", result="churned")) == 1
    assert store(acme, rows[0]._replace(day=DUE + DAY)) == 3, "two days are gone"
    assert licenses.replace(acme.pk, ["E-1"], []) == 1
    assert not LicenseOutcome.objects.exists()


def test_rows_of_others_stay(acme: Product, globex: Product) -> None:
    for product in (acme, globex):
        store(product, a_row("E-1"), a_row("E-2"))
    licenses.replace(acme.pk, ["E-1"], [])
    rows = LicenseOutcome.objects.values_list("product", "license")
    assert set(rows) == {(acme.pk, "E-2"), (globex.pk, "E-1"), (globex.pk, "E-2")}


def test_an_outcome_is_of_the_account_that_has_the_licenses_id(
    acme: Product, globex: Product
) -> None:
    an_account(globex, "site", DUE - DAY)
    early = DUE - 40 * DAY
    store(acme, a_row(result="churned", known_on=DUE + 30 * DAY, answered_on=early))
    assert read(acme).excluded == {Exclusion.NO_DATA: 1}
    account = an_account(acme, "site", DUE - DAY)
    (outcome,) = read(acme).outcomes
    assert (outcome.account_id, outcome.day, outcome.result) == (account.pk, DUE, "churned")
    assert (outcome.known_on, outcome.answered_on) == (DUE + 30 * DAY, early)
    assert (outcome.is_good, outcome.began_on) == (False, DUE - 365 * DAY)
    assert read(globex) == OutcomeSet(Kind.RENEWAL, [], {}, 0)


def test_the_seats_of_a_day_are_those_of_the_state_it_had(acme: Product) -> None:
    an_account(acme, "site", DUE - 300 * DAY)
    changed = (DUE - 90 * DAY, DUE - 20 * DAY)
    earlier = f'[["{changed[0]}", 40], ["{changed[1]}", null]]'
    row = a_row(seats=5, earlier_seats=earlier)
    assert (store(acme, row), store(acme, row)) == (1, 0)
    assert licenses.stored_rows(acme.pk, ["E-1"]) == [row]
    (outcome,) = read(acme).outcomes
    days = {ago: outcome.seats_on(DUE - ago * DAY) for ago in (200, 91, 90, 21, 20, 1)}
    assert days == {200: 40, 91: 40, 90: None, 21: None, 20: 5, 1: 5}
    assert store(acme, a_row(seats=5)) == 1
    (outcome,) = read(acme).outcomes
    assert outcome.seats_on(DUE - 200 * DAY) == 5


def test_results_are_good_or_not(acme: Product) -> None:
    an_account(acme, "site", date(2020, 1, 1))
    results = ["renewed", "renewed_lower", "stayed", "bought", "churned", "not_bought"]
    store(acme, *(a_row(f"E-{place}", result=result) for place, result in enumerate(results)))
    good = {outcome.result: outcome.is_good for outcome in read(acme).outcomes}
    assert good == dict(zip(results, [True, True, True, True, False, False], strict=True))


def test_what_is_left_out_is_counted_by_its_first_reason(acme: Product) -> None:
    an_account(acme, "site", DUE - DAY)
    an_account(acme, "late", DUE)
    an_account(acme, "silent", None)
    reasons = ["sandbox", "site", "moved", "internal", "free", "unknown", "open"]
    store(
        acme,
        *(a_row(reason, exclusion=reason, known_on=None) for reason in reasons),
        *(a_row(f"no data {name}", cloud_id=name) for name in ("", "late", "silent", "nobody")),
        a_row("known later", known_on=TODAY + DAY),
        a_row("renewed early", day=TODAY + DAY, known_on=TODAY - 9 * DAY),
        a_row("counted"),
        a_row("of another kind", kind="evaluation"),
    )
    outcomes = read(acme)
    assert len(outcomes.outcomes) == 1
    expected = dict.fromkeys(map(Exclusion, reasons), 1)
    assert outcomes.excluded == expected | {Exclusion.OPEN: 3, Exclusion.NO_DATA: 4}
    # The day after, these are known.
    assert len(read(acme, today=TODAY + DAY).outcomes) == 3


def test_of_many_an_even_sample_is_the_same_each_time(acme: Product) -> None:
    an_account(acme, "site", date(2020, 1, 1))
    days = [DUE - place * DAY for place in range(400)]
    store(acme, *(a_row(f"E-{place % 7}", day) for place, day in enumerate(days)))
    sample = read(acme, limit=100)
    assert (len(sample.outcomes), sample.sampled_of) == (100, 400)
    assert sample == read(acme, limit=100)
    sampled = [outcome.day for outcome in sample.outcomes]
    assert sampled == sorted(sampled)
    assert 30 < sum(day > days[200] for day in sampled) < 70
    smaller = {outcome.day for outcome in read(acme, limit=50).outcomes}
    assert smaller < set(sampled)
    assert read(acme, limit=400).sampled_of is None


def test_kinds_of_licenses_are_there_once_a_ledger_is(acme: Product) -> None:
    workspace = acme.workspaces.get()
    assert available_kinds(workspace) == [Kind.DORMANCY]
    licenses.follow(acme.pk, 3)
    assert available_kinds(workspace) == [*licenses.KINDS, Kind.DORMANCY]
    assert read(acme).revision == 3
