"""Forecasts of renewals: what is expected, with intervals that hold, stored and never changed."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from core.database import statistics
from core.jobs import run
from core.models import Job
from engagement.models import Product, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from marketplace.ledger.relations import SITE
from marketplace.models import LedgerLicense
from outcomes.forecasts import forecast, jobs, storage, texts
from outcomes.forecasts.results import Forecast, Measure, PastCount, Term
from outcomes.forecasts.simulation import SPREADS, believed_spreads, simulate
from outcomes.kinds import Kind
from outcomes.models import StoredForecast
from outcomes.reading import QUEUE
from proofs import forecasts as proof
from tests.database import one_server
from tests.engagement.nights.kills import kill_at_each
from tests.outcomes.forecasts import Planted, decide, plant
from tests.outcomes.test_backtest_jobs import Clock

SEATS, CENTS = Measure
KNOWN = believed_spreads([])


def term(number: int = 0, **values: object) -> Term:
    usual = Term(
        license=f"license {number}",
        account=number,
        day=date(2026, 11, 20),
        month=0,
        seats=10,
        cents=None,
        chance=0.8,
        low=0.8,
        high=0.8,
        outcomes=200,
        score=None,
    )
    return usual._replace(**values)  # type: ignore[arg-type]


# --- Sums -----------------------------------------------------------------------------------


def test_the_interval_of_equal_terms_is_that_of_the_binomial_distribution() -> None:
    sums = simulate([term(number) for number in range(200)], KNOWN, [1]).sums()[SEATS]
    assert (sums.terms, sums.due, round(sums.expected)) == (200, 2_000, 1_600)
    low, high = (10 * stats.binom.ppf(share, 200, 0.8) for share in (0.1, 0.9))
    assert abs(sums.low - low) <= 10 and abs(sums.high - high) <= 10


def test_sums_are_the_same_each_time() -> None:
    terms = [term(number, chance=0.3 + number / 200, seats=number**2 + 7) for number in range(60)]
    assert simulate(terms, KNOWN, [1]).sums() == simulate(terms, KNOWN, [1]).sums()
    assert simulate(terms, KNOWN, [1]).sums() != simulate(terms, KNOWN, [2]).sums()


def test_what_customers_have_answered_is_certain() -> None:
    terms = [term(0, chance=1.0), term(1, chance=0.0), term(2, chance=1.0)]
    sums = simulate(terms, KNOWN, [1]).sums()[SEATS]
    assert (sums.due, sums.expected, sums.low, sums.high) == (30, 20, 20, 20)


def test_nothing_is_due() -> None:
    sums = simulate([], KNOWN, [1]).sums()[SEATS]
    assert (sums.terms, sums.due, sums.expected, sums.low, sums.high) == (0, 0, 0, 0, 0)


def test_terms_without_sales_are_left_out_of_revenue() -> None:
    terms = [term(0, cents=5_000), term(1, cents=None)]
    sums = simulate(terms, KNOWN, [1]).sums()
    assert (sums[SEATS].terms, sums[CENTS].terms, sums[CENTS].due) == (2, 1, 5_000)


def test_terms_of_an_account_go_together() -> None:
    apart = simulate([term(number) for number in range(90)], KNOWN, [1]).sums()[SEATS]
    together = [term(number, account=number // 3) for number in range(90)]
    sums = simulate(together, KNOWN, [1]).sums()[SEATS]
    assert (sums.high - sums.low) > 1.4 * (apart.high - apart.low)


def test_what_the_model_does_not_know_widens_the_interval() -> None:
    certain = simulate([term(number) for number in range(500)], KNOWN, [1]).sums()[SEATS]
    uncertain = [term(number, low=0.7, high=0.87, outcomes=100) for number in range(500)]
    sums = simulate(uncertain, KNOWN, [1]).sums()[SEATS]
    assert (sums.high - sums.low) > 1.5 * (certain.high - certain.low)


def test_months_that_differed_widen_the_interval() -> None:
    """By a meta-analysis: shifts of 0.5 log-odds in months that tell them well."""
    shifts = np.random.default_rng(1).normal(0, 0.5, 24)
    months = [PastCount(800 + 160 * shift, 800, 160) for shift in shifts]
    spreads = believed_spreads(months)
    assert abs(float(SPREADS @ spreads) - shifts.std()) < 0.1
    calm = believed_spreads([PastCount(800 + shift, 800, 160) for shift in shifts])
    assert float(SPREADS @ calm) < 0.1
    terms = [term(number) for number in range(500)]
    wide, usual = (simulate(terms, own, [1]).sums()[SEATS] for own in (spreads, calm))
    assert (wide.high - wide.low) > 1.5 * (usual.high - usual.low)


def test_intervals_hold_in_worlds_with_known_hazards() -> None:
    """A small form of ``python -m proofs.forecasts``."""
    held = [is_within for seed in range(6) for _, is_within, _ in proof.quarters(seed)]
    assert 0.62 <= np.mean(held) <= 0.95


# --- What is due ----------------------------------------------------------------------------

TODAY = date(2026, 11, 2)
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


@pytest.fixture
def scored(acme: Product) -> Product:
    from engagement.rescoring.rescore import rescore

    rescore(NOON)
    return acme


def forecast_of(product: Product, kind: Kind = Kind.RENEWAL, today: date = TODAY) -> Forecast:
    workspace = product.workspaces.select_related("scores", "product").get()
    return forecast.make(workspace, kind, today, is_share=False).forecast


@pytest.mark.django_db(transaction=True)
def test_each_month_has_the_terms_that_end_in_it(scored: Product) -> None:
    plant(
        scored,
        [
            Planted("a", date(2026, 11, 20), 0.8),
            Planted("b", date(2026, 12, 31), 0.5, cents=9_900),
            Planted("c", date(2027, 2, 28), 0.9, seats=40),
            Planted("d", date(2027, 3, 1), 0.9),
        ],
        TODAY,
    )
    months = forecast_of(scored).months
    assert [(f"{month.first_day:%Y-%m}", month.terms) for month in months] == [
        *(("2026-11", 1), ("2026-12", 1), ("2027-01", 0), ("2027-02", 1)),
    ]
    assert [month.sums[SEATS].expected for month in months] == [8, 5, 0, 36]
    assert months[1].sums[CENTS].due == 9_900
    assert forecast_of(scored).total[SEATS].due == 60


@pytest.mark.django_db(transaction=True)
def test_answers_are_certain_and_what_has_no_chance_has_that_of_all(scored: Product) -> None:
    plant(
        scored,
        [
            Planted("open", date(2026, 11, 20), 0.6),
            Planted("renewed early", date(2026, 11, 25)).ended(),
            Planted("lost", date(2026, 11, 1)).ended("churned"),
            Planted("cancelled", date(2026, 11, 26), None, answered_on=date(2026, 10, 30)),
            Planted("over", date(2026, 11, 1), None),
            Planted("moved", date(2026, 11, 27)).ended("moved", "moved"),
            Planted("sandbox", date(2026, 11, 27)).ended("open", "sandbox"),
        ],
        TODAY,
    )
    november = forecast_of(scored).months[0]
    assert (november.terms, november.answered) == (5, 3)
    assert november.sums[SEATS].expected == pytest.approx(6 + 10 + 6)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_said_of_open_terms_before_any_was_decided(scored: Product) -> None:
    cancelled = Planted("cancelled", date(2026, 11, 26), None, answered_on=date(2026, 10, 30))
    workspace = plant(scored, [cancelled, Planted("open", date(2026, 12, 1), None)], TODAY)
    own = forecast_of(scored)
    assert own.unknown == 1
    assert texts.summary(own, SEATS) == (
        "Nothing can be said yet of annual terms that are up for renewal until February 2027 (1): "
        "nobody knows of any that was decided before."
    )
    work(at(TODAY))
    assert storage.latest_of([workspace.pk]) == {}
    assert storage.latest(workspace)[Kind.RENEWAL].unknown == 1 and not stored(scored)


@pytest.mark.django_db(transaction=True)
def test_a_monthly_license_counts_in_each_month_that_it_may_still_be_there(
    scored: Product,
) -> None:
    monthly = Planted("m", date(2026, 11, 30), 0.729, kind=Kind.MONTHLY_STAY)
    renewed = Planted("n", date(2026, 12, 5), 0.729, kind=Kind.MONTHLY_STAY)
    plant(scored, [monthly, renewed, Planted("a", date(2026, 11, 20))], TODAY)
    stays = forecast_of(scored, Kind.MONTHLY_STAY)
    assert [month.sums[SEATS].due for month in stays.months] == [20, 20, 20, 20]
    assert [round(month.sums[SEATS].expected, 3) for month in stays.months] == [
        pytest.approx(10 * (0.9 ** (number + 1) + 0.9**number)) for number in range(4)
    ]
    assert stays.months[0].answered == 1
    assert stays.total == {}, "the same seats are in each month"
    assert forecast_of(scored).months[0].terms == 1, "annual terms are on lines of their own"


# --- Stored forecasts -----------------------------------------------------------------------


def work(now: datetime) -> None:
    jobs.request_due(now)
    run.run_due(QUEUE, lambda: now)


def at(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


def stored(product: Product) -> list[StoredForecast]:
    rows = StoredForecast.objects.filter(product=product, stays=True, kind="renewal")
    return list(rows.order_by("made_on"))


@pytest.mark.django_db(transaction=True)
def test_the_first_forecast_of_a_month_stays_and_the_latest_follows_each_look(
    scored: Product,
) -> None:
    terms = [Planted("a", date(2026, 11, 20), 0.8, cents=100), Planted("b", date(2026, 12, 10))]
    workspace = plant(scored, terms, TODAY)
    work(at(TODAY))
    (first,) = stored(scored)
    assert (first.made_on, first.licenses, first.versions) == (TODAY, ["a", "b"], [7])
    assert (first.days, first.seats) == ([term.day for term in terms], [10, 10])
    assert (first.cents, first.chances) == ([100, None], [0.8, 0.8])
    assert not Job.objects.filter(kind=storage.JOB).exists()

    later = TODAY + timedelta(days=1)
    plant(scored, [replace(terms[0], chance=0.3), terms[1]], later)
    work(at(later))
    assert storage.latest(workspace)[Kind.RENEWAL].months[0].sums[SEATS].expected == 3
    assert stored(scored) == [first] and stored(scored)[0].result == first.result
    for row in StoredForecast.objects.filter(stays=False):
        assert row.licenses == [], "the terms of the latest one are in the table of chances"

    december = date(2026, 12, 1)
    plant(scored, [terms[0].ended(), terms[1]], december)
    work(at(december))
    assert [row.made_on for row in stored(scored)] == [TODAY, december]
    assert StoredForecast.objects.filter(kind="renewal", stays=False).count() == 1


@one_server
@pytest.mark.django_db(transaction=True)
def test_the_planner_knows_terms_that_arrived_just_before(
    scored: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the statement that reads them is planned for none, until autovacuum comes by."""
    monkeypatch.setattr(statistics, "PRODUCT_INTERVAL", 0)
    monkeypatch.setattr(statistics, "_next_rows", {})
    tables = {"engagement_accountchance", "outcomes_licenseoutcome"}
    terms = [Planted(f"term {n}", TODAY + timedelta(days=n % 90)) for n in range(250)]
    plant(globex, terms, TODAY)
    statistics.analyze()
    plant(scored, terms, TODAY)
    assert tables <= set(statistics._few_expected(scored.pk))
    work(at(TODAY))
    assert not tables & set(statistics._few_expected(scored.pk))


def walked(product: Product) -> Workspace:
    """A forecast made on the first day of October, of five terms."""
    october = date(2026, 10, 1)
    terms = [Planted(name, date(2026, 10, 20), 0.5) for name in "abcde"]
    workspace = plant(product, terms, october)
    work(at(october))
    return workspace


@pytest.mark.django_db(transaction=True)
def test_what_became_of_exactly_these_terms_is_beside_the_forecast(scored: Product) -> None:
    workspace = walked(scored)
    fates = [
        Planted("a", date(2026, 10, 20)).ended(),
        # The end moved by some days, and the license renewed once more.
        Planted("b", date(2026, 10, 25)).ended("renewed_lower"),
        Planted("b", date(2027, 10, 25), None),
        Planted("c", date(2026, 10, 20)).ended("churned"),
        Planted("d", date(2026, 10, 20)).ended("moved", "moved"),
        Planted("e", date(2026, 10, 20), None),
        Planted("new", date(2026, 10, 21)).ended(),
    ]
    plant(scored, fates, TODAY)
    work(at(TODAY))
    (october,) = storage.latest(workspace)[Kind.RENEWAL].past
    assert (october.terms, october.open, october.unknown) == (5, 1, 1)
    assert (october.happened[SEATS], october.is_within[SEATS]) == (10 + 10 + 5, None)
    before = stored(scored)[0].result

    # The ledger is corrected.
    decide(scored, [fates[0].ended("churned"), *fates[1:5], fates[5].ended("churned")])
    plant(scored, [fates[0].ended("churned"), *fates[1:5], fates[5].ended("churned")], TODAY, 2)
    StoredForecast.objects.filter(stays=False).delete()
    work(at(TODAY))
    own = storage.latest(workspace)[Kind.RENEWAL]
    (october,) = own.past
    is_within = october.sums[SEATS].low <= 15 <= october.sums[SEATS].high
    assert (october.open, october.happened[SEATS]) == (0, 15)
    assert october.is_within[SEATS] is is_within
    assert (own.coverage[SEATS].value, own.coverage[SEATS].outcomes) == (is_within, 1)
    assert stored(scored)[0].result == before, "what was expected is never corrected"


@pytest.mark.django_db(transaction=True)
def test_a_quarter_is_compared_with_what_was_expected_when_it_began(scored: Product) -> None:
    """And the terms that made the difference are named, those with most that was not expected
    first."""
    july = date(2026, 7, 1)
    days = [date(2026, month, 20) for month in (7, 8, 9)]
    small = [Planted(f"{name} {day:%b}", day, 0.9) for day in days for name in "ab"]
    large = Planted("large", days[1], 0.8, seats=500)
    workspace = plant(scored, [*small, large, Planted("next", date(2026, 10, 5))], july)
    work(at(july))
    (row,) = stored(scored)
    quarter = storage.decode(row).quarter[SEATS]
    assert (quarter.terms, quarter.due) == (7, 560)
    assert quarter.expected == pytest.approx(6 * 9 + 400)

    lost = [small[0].ended("churned"), large.ended("churned")]
    plant(scored, [*lost, *(term.ended() for term in small[1:])], TODAY)
    work(at(TODAY))
    own = storage.latest(workspace)[Kind.RENEWAL]
    (past,) = own.past_quarters
    assert (past.first_day, past.months, past.made_on, past.versions) == (july, 3, july, [7])
    assert past.sums[SEATS] == quarter and past.happened[SEATS] == 50
    assert (past.open, past.is_within[SEATS]) == (0, quarter.low <= 50)
    assert texts.period_name(past) == "2026-Q3"
    assert texts.period_label(past) == "July to September 2026"
    decisive = storage.decisive_terms(workspace, own, past, SEATS)
    assert [(term.license, term.seats, term.cloud_id) for term in decisive] == [
        ("large", 500, "site of large"),
        ("a Jul", 10, "site of a Jul"),
    ]
    september = next(past for past in own.past if past.first_day.month == 9)
    assert september.happened[SEATS] == 20 > september.sums[SEATS].expected
    decisive = storage.decisive_terms(workspace, own, september, SEATS)
    assert {term.license for term in decisive} == {"a Sep", "b Sep"}, "more than was expected"

    LedgerLicense.objects.create(
        product=scored, license="large", links=[f"{SITE}site of large"], as_of=TODAY, digest=b""
    )
    forget(SubjectRef(scored.pk, SubjectScope.ACCOUNT, "site of large"), NOON)
    decisive = storage.decisive_terms(workspace, own, past, SEATS)
    assert [term.license for term in decisive] == ["", "a Jul"]


@pytest.mark.django_db(transaction=True)
def test_a_monthly_license_renewed_if_it_has_a_later_term(scored: Product) -> None:
    september = date(2026, 9, 1)
    names = ("stayed", "left in September", "left in October", "open", "gone")
    start = [Planted(name, date(2026, 9, 20), 0.9, kind=Kind.MONTHLY_STAY) for name in names]
    workspace = plant(scored, start, september)
    work(at(september))
    days = (date(2026, 9, 20), date(2026, 9, 20), date(2026, 10, 20), date(2026, 9, 20))
    results = ("stayed", "churned", "churned")
    fates = [
        replace(term, day=day).ended(result)
        for term, day, result in zip(start, days, results, strict=False)
    ]
    plant(scored, [*fates, replace(start[3], chance=None)], TODAY)
    decide(scored, [replace(start[4], day=date(2025, 9, 20)).ended()])
    work(at(TODAY))
    months = {
        f"{past.first_day:%m}": past for past in storage.latest(workspace)[Kind.MONTHLY_STAY].past
    }
    september_went = months["09"]
    assert (september_went.open, september_went.unknown) == (1, 1)
    of_unknown = 10 * 0.9 ** (1 / 3)
    assert september_went.happened[SEATS] == pytest.approx(20 + of_unknown)


@pytest.mark.django_db(transaction=True)
def test_forgetting_an_account_takes_its_licenses_out_and_leaves_amounts(scored: Product) -> None:
    walked(scored)
    LedgerLicense.objects.create(
        product=scored, license="c", links=[f"{SITE}site of c"], as_of=TODAY, digest=b""
    )
    forget(SubjectRef(scored.pk, SubjectScope.ACCOUNT, "site of c"), NOON)
    (row,) = stored(scored)
    assert row.licenses == ["a", "b", "", "d", "e"] and row.seats == [10] * 5
    plant(scored, [Planted(name, date(2026, 10, 20)).ended() for name in "abde"], TODAY)
    work(at(TODAY))
    (october,) = storage.latest(scored.workspaces.get())[Kind.RENEWAL].past
    assert (october.unknown, october.happened[SEATS]) == (1, 45)


@pytest.mark.django_db(transaction=True)
def test_a_license_that_was_joined_with_another_is_found_by_its_name(scored: Product) -> None:
    walked(scored)
    storage.rename_licenses(scored.pk, ["b", "d"], "a")
    assert stored(scored)[0].licenses == ["a", "a", "c", "a", "e"]
    storage.rename_licenses(scored.pk + 1, ["a"], "")
    assert stored(scored)[0].licenses == ["a", "a", "c", "a", "e"]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_workers_that_are_killed_leave_each_forecast_once_and_as_it_was(scored: Product) -> None:
    """Over three months, whose first days and later ones have looks. The workers die before each of
    their statements in turn."""

    def rows() -> list[tuple[object, ...]]:
        names = ("kind", "made_on", "stays", "result", "versions", "licenses", "chances", "seats")
        own = StoredForecast.objects.order_by("kind", "stays", "made_on")
        return list(own.values_list(*names))

    def wait(clock: Clock, _: timedelta) -> None:
        """No longer than the job does, so that a day's crashes are on that day."""
        times = Job.objects.filter(kind=storage.JOB).values_list("due_at", "leased_until")
        clock.now = max([clock.now, *(time for row in times for time in row if time)])

    def play(kill: bool) -> Iterator[list[tuple[object, ...]]]:
        StoredForecast.objects.all().delete()
        for place, day in enumerate(days):
            ended = [term.ended() if term.day < day else term for term in terms]
            plant(scored, ended, day, revision=place + 1)
            clock = Clock()
            clock.now = at(day)
            jobs.request_due(clock.now)
            if kill:
                # The first kill of each day is at another statement. Together they are at all.
                places = range(place + 1, 300, len(days))
                own = (lambda clock=clock: clock.now, partial(wait, clock))
                kills.append(kill_at_each(storage.JOB, places, *own))
            run.run_due(QUEUE, lambda clock=clock: clock.now)  # type: ignore[misc]
            assert not Job.objects.filter(kind=storage.JOB).exists()
            yield rows()

    months = (date(2026, 9, 1), date(2026, 10, 1), date(2026, 11, 1))
    days = [day for first in months for day in (first, first + timedelta(days=9))]
    terms = [
        Planted(f"{kind} {number}", date(2026, 9, 5) + timedelta(days=6 * number), 0.8, kind=kind)
        for kind in (Kind.RENEWAL, Kind.MONTHLY_STAY)
        for number in range(20)
    ]
    kills: list[int] = []
    lived, killed = list(play(False)), list(play(True))
    assert killed == lived and sum(kills) > 20
    assert len([row for row in killed[-1] if row[2]]) == 6, "a forecast of each kind and month"
    for before, after in pairwise(killed):
        stay = [row for row in before if row[2]]
        assert [row for row in after if row[2] and row in stay] == stay, "none is changed"
