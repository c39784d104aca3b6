"""Without purchasers, a license that leaves and a namesake's that begins perhaps moved. A person
decides."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

import pytest
from django.test import Client

from access.models import TrailEntry
from engagement.models import Account, Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from harness.marketplace.lives import Life
from harness.marketplace.reports import VendorReports, license_names
from harness.marketplace.server import Simulator
from harness.marketplace.switches import Switches
from marketplace.ledger import moves, recomputation
from marketplace.ledger.events import events_of
from marketplace.ledger.inputs import DEFAULTS
from marketplace.ledger.labels import Outcome, label_terms
from marketplace.ledger.moves import PerhapsMove
from marketplace.ledger.relations import relate
from marketplace.ledger.stages import life_of
from marketplace.models import Connection, LedgerLicense, LicenseEvent
from tests.admin.conftest import member, reader
from tests.jobs import run_job
from tests.marketplace import connections
from tests.marketplace.connections import Kind, RunState, sync_now, work
from tests.marketplace.ledger.test_through_syncs import events, noon
from tests.marketplace.vendor_reports import a_life

pytestmark = pytest.mark.django_db
__all__ = ["member", "reader"]

BOUGHT, MOVED, LAST = date(2025, 11, 1), date(2026, 4, 2), date(2026, 5, 1)
SWITCHES = Switches(moves_with_a_twin=True, shares_account=False)


@pytest.fixture
def connection(acme: Product, simulator: Simulator) -> Connection:
    """Acme's connection, whose first sync found nothing."""
    before = noon(BOUGHT - timedelta(days=9))
    new = connections.connect(acme, simulator, before)
    assert work(new, before).state == RunState.SUCCEEDED
    run_job(recomputation.KIND, before)
    return new


@pytest.fixture
def life(simulator: Simulator, connection: Connection) -> Iterator[Life]:
    """A customer that moved, as syncs saw it."""
    customer = a_life(1, SWITCHES)
    customer.purchase(BOUGHT)
    customer.move(MOVED)
    show(simulator, connection, customer)
    yield customer


def show(simulator: Simulator, connection: Connection, *lives: Life) -> None:
    for on in (BOUGHT, MOVED, LAST):
        simulator.show(VendorReports(simulator.vendor.app, lives, on))
        assert sync_now(connection, noon(on), Kind.FULL).state == RunState.SUCCEEDED
        run_job(recomputation.KIND, noon(on))


def names(life: Life) -> tuple[str, str]:
    own = (license_names(1, life, number)["appEntitlementNumber"] for number in range(2))
    return next(own), next(own)


def outcomes(product: Product, license: str) -> list[Outcome]:
    every = LedgerLicense.objects.filter(product=product).values_list("license", flat=True)
    lives = [
        life_of(inputs, LAST, DEFAULTS)
        for inputs in recomputation.load_inputs(product.pk, list(every))
    ]
    (own,) = [life for life in lives if life.license == license]
    relations = relate(lives, DEFAULTS)
    return [label.outcome for label in label_terms(own, events_of(own, relations), relations)]


def decide(product: Product, move: PerhapsMove, is_move: bool | None) -> None:
    moves.decide(product.pk, PerhapsMove(move.leaver, move.arrival, is_move), noon(LAST))
    run_job(recomputation.KIND, noon(LAST))


def test_the_question_is_open_on_both_accounts_and_the_term_has_no_label(
    acme: Product, life: Life
) -> None:
    leaver, arrival = names(life)
    assert events(acme) == [
        ("2025-11-01", "purchased"),
        ("2026-04-02", "became_free"),
        ("2026-04-02", "purchased"),
    ]
    for site in life.sites:
        assert moves.moves_of(acme.pk, site.cloud_id) == [PerhapsMove(leaver, arrival, None)]
    assert outcomes(acme, leaver) == [Outcome.UNKNOWN]
    departure = LicenseEvent.objects.get(license=leaver, type="became_free")
    assert departure.details["perhaps_to"] == arrival


def test_a_person_decides_either_way_and_may_take_it_back(acme: Product, life: Life) -> None:
    leaver, arrival = names(life)
    site = life.sites[0].cloud_id
    (question,) = moves.moves_of(acme.pk, site)
    before = events(acme)
    decide(acme, question, True)
    assert events(acme) == [
        ("2025-11-01", "purchased"),
        ("2026-04-02", "became_free"),
        ("2026-04-02", "moved_site"),
        ("2026-04-02", "moved_site"),
    ]
    assert outcomes(acme, leaver) == [Outcome.MOVED]
    assert moves.moves_of(acme.pk, site) == [PerhapsMove(leaver, arrival, True)]
    decide(acme, question, False)
    assert (events(acme), outcomes(acme, leaver)) == (before, [Outcome.CHURNED])
    assert "perhaps_to" not in str(LicenseEvent.objects.filter(withdrawn_at=None).values())
    decide(acme, question, None)
    assert (events(acme), outcomes(acme, leaver)) == (before, [Outcome.UNKNOWN])


def test_a_decision_outlives_syncs_and_goes_with_the_account(
    acme: Product, simulator: Simulator, connection: Connection, life: Life
) -> None:
    (question,) = moves.moves_of(acme.pk, life.sites[0].cloud_id)
    decide(acme, question, True)
    life.resize(LAST + timedelta(days=3), 75)
    later = LAST + timedelta(days=3)
    simulator.show(VendorReports(simulator.vendor.app, [life], later))
    assert sync_now(connection, noon(later), Kind.FULL).state == RunState.SUCCEEDED
    run_job(recomputation.KIND, noon(later))
    assert [type for _, type in events(acme)].count("moved_site") == 2
    subject = SubjectRef(acme.pk, SubjectScope.ACCOUNT, life.sites[1].cloud_id)
    assert forgetting.forget(subject, noon(later), suppress=True)
    assert question.arrival not in str(list(LedgerLicense.objects.values()))


def test_customers_with_purchasers_or_other_names_did_not_move(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    """One customer leaves, and another one begins on that day."""
    leavers, beginners = [], []
    for number, switches in ((1, SWITCHES), (2, Switches(shares_account=True))):
        leaver = a_life(number, switches)
        leaver.purchase(BOUGHT)
        leaver.become_free(MOVED)
        leavers.append(leaver)
        beginner = a_life(number + 10, switches)
        beginner.purchase(MOVED)
        beginners.append(beginner)
    # The second two have one name, and two purchasers.
    theirs = leavers[1].sites[0]
    own, other = beginners[1].sites
    beginners[1].sites = replace(own, company=theirs.company, country=theirs.country), other
    show(simulator, connection, *leavers, *beginners)
    for life in (*leavers, *beginners):
        assert moves.moves_of(acme.pk, life.sites[0].cloud_id) == []


def test_the_page_asks_and_who_may_change_the_product_answers(
    acme: Product, life: Life, member: Client, reader: Client
) -> None:
    leaver, arrival = names(life)
    account = Account.objects.get(product=acme, external_id=life.sites[0].cloud_id)
    address = f"/admin/engagement/account/{account.pk}/change/"
    text = f"{leaver} perhaps moved to {arrival}, on another site: the same company name"
    assert text in reader.get(address).text and "It moved" not in reader.get(address).text
    page = member.get(address).text
    assert text in page and "It moved" in page and "Different customers" in page
    answer = f"/admin/engagement/account/{account.pk}/license-move/?leaver={leaver}"
    answer += f"&arrival={arrival}&answer="
    assert reader.post(f"{answer}moved").status_code == 403
    assert member.get(f"{answer}moved").status_code == 405
    assert member.post(f"{answer}sold").status_code == 404
    assert member.post(f"{answer}moved".replace(arrival, "E-1")).status_code == 404
    assert member.post(f"{answer}moved", follow=True).status_code == 200
    run_job(recomputation.KIND, noon(LAST))
    page = member.get(address).text
    assert f"{leaver} moved to {arrival}, as a person decided." in page and "Undo" in page
    assert TrailEntry.objects.filter(kind="license", object_name=leaver).count() == 1
