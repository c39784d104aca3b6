"""A search finds users and accounts by any part of what names them, in upper or lower case."""

from datetime import timedelta

import pytest

from core.database import sql
from engagement.messages import Alias
from engagement.metric_names import Scope
from engagement.models import Account, Product, SearchBacklog, SearchEntry, User
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.rescoring.jobs import INDEX_BACKLOG
from engagement.rescoring.rescore import rescore
from engagement.search import entries, lookup
from tests.cases import each
from tests.engagement.history import NOON, group, identify, tell, track
from tests.jobs import run_job

pytestmark = pytest.mark.django_db

ID = "6f1c9b1e-3d9a-4c55-9d4a-1b7d6b0f2a11"


def matches(product: Product, term: str, scope: Scope = "account") -> list[str]:
    """The external ids of the matches, best first."""
    ids = [match.subject_id for match in lookup.find(product.pk, scope, term)]
    subjects = (User if scope == "user" else Account).objects.in_bulk(ids)
    return [subjects[id].external_id for id in ids]


@pytest.fixture
def customers(acme: Product) -> Product:
    tell(
        acme,
        group(ID, name="Ember Care", domain="embercare.example"),
        group("northstar", name="North Star GmbH & Co. 100%_KG"),
        group("unnamed", plan="pro"),
        group("remember", name="Remember Me"),
        identify("u-17", name="Åsa Öberg", email="asa@embercare.example"),
        track("stranger"),
    )
    rescore(NOON)
    return acme


@each(
    ("term", "ids"),
    [
        ("ember", [ID, "remember"]),
        ("EMBER care", [ID]),
        ("  ember   care ", [ID]),
        ("bercare.ex", [ID]),
        ("3d9a-4c55", [ID]),
        ("em", [ID]),
        ("e", [ID]),
        ("st", ["northstar"]),
        ("unn", ["unnamed"]),
        ("100%_kg", ["northstar"]),
        ("100__kg", []),
        ("caree", []),
        # All words, in any order and in any of the texts.
        ("care ember", [ID]),
        ("ember embercare.example", [ID]),
        ("ember me", ["remember"]),
        ("remember care", []),
        ("star st 100%", ["northstar"]),
        ("star ar 100%", []),
        ("co. north", ["northstar"]),
        ("er care", [ID]),
        ('"ember care"', [ID]),
        ('"care ember"', []),
        ('"ember care" 3d9a', [ID]),
        ("n s", []),
        ("ember a b c d e f g h i", []),
        ("pro", []),
        ("\0", []),
        ("", []),
    ],
)
def test_accounts_by_any_part(customers: Product, term: str, ids: list[str]) -> None:
    assert matches(customers, term) == ids


@each("term", ["öBERG", "Åsa", "asa@ember", "U-17", "ÖB", "å", "öberg embercare", "u-1 asa"])
def test_users_by_any_part(customers: Product, term: str) -> None:
    assert matches(customers, term, "user") == ["u-17"]


def test_users_who_are_not_identified_and_other_products_are_not_found(
    customers: Product, globex: Product
) -> None:
    assert matches(customers, "stranger", "user") == []
    tell(customers, identify("stranger"))
    rescore(NOON)
    assert matches(customers, "stranger", "user") == ["stranger"]
    assert matches(globex, "ember") == []


def test_a_new_name_replaces_the_old_one(customers: Product) -> None:
    tell(customers, group("remember", hours=1, name="Ash & Sons"))
    rescore(NOON)
    assert matches(customers, "remember me") == []
    assert matches(customers, "ash & s") == ["remember"]


def test_an_unchanged_entry_is_not_written_again(customers: Product) -> None:
    def versions() -> list[tuple[object, ...]]:
        return sql.fetch("SELECT ctid::text, xmin::text FROM engagement_searchentry ORDER BY 1")

    before = versions()
    tell(customers, track("u-17"), group(ID, hours=1, plan="free"))
    rescore(NOON)
    assert before
    assert versions() == before


def test_a_joined_id_finds_the_user_that_it_belongs_to(customers: Product) -> None:
    tell(customers, identify("old-17", name="Åsa"))
    rescore(NOON)
    assert matches(customers, "old-17", "user") == ["old-17"]
    tell(customers, Alias("u-17", "old-17", NOON))
    rescore(NOON)
    assert matches(customers, "OLD-1", "user") == ["u-17"]
    assert matches(customers, "åsa", "user") == ["u-17"]


@pytest.mark.parametrize(
    ("scope", "id", "term"),
    [(SubjectScope.ACCOUNT, ID, "ember care"), (SubjectScope.USER, "u-17", "asa@")],
)
def test_forgetting_deletes_the_entry_at_once(
    customers: Product, scope: SubjectScope, id: str, term: str
) -> None:
    before = SearchEntry.objects.count()
    forgetting.forget(SubjectRef(customers.pk, scope, id), NOON, suppress=False)
    assert SearchEntry.objects.count() == before - 1
    assert matches(customers, term, "user" if scope == SubjectScope.USER else "account") == []


def test_subjects_that_are_older_than_the_search_are_indexed_step_by_step(
    customers: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    SearchEntry.objects.all().delete()
    entries.open_backlog(customers.pk, NOON)
    monkeypatch.setattr(entries, "BACKLOG_STEP", 2)
    run_job(INDEX_BACKLOG, NOON, lambda: SearchEntry.objects.count() >= 2)
    assert SearchEntry.objects.count() == 2
    # An older release, still running during the upgrade, adds an account without an entry.
    tell(customers, group("late", name="Late Ltd."))
    run_job(INDEX_BACKLOG, NOON)
    assert matches(customers, "ember") == [ID, "remember"]
    assert matches(customers, "late") == ["late"]
    assert SearchBacklog.objects.count() == 2
    rescore(NOON + timedelta(days=2))
    assert not SearchBacklog.objects.exists()


def test_the_search_reads_its_index(customers: Product) -> None:
    """No other plan is fast in a product with a million accounts."""
    tell(customers, *(group(f"{number} filler", name=f"Filler {number}") for number in range(3000)))
    rescore(NOON)
    sql.execute("ANALYZE engagement_searchentry")
    assert matches(customers, "ember care") == [ID]
    for term in ("ember care", "ember 3d9a", "em 3d9a-4c55"):
        assert matches(customers, term) == [ID]
        assert "search_grams" in lookup.matching_entries([customers.pk], "account", term).explain()


def test_a_term_that_most_have_is_answered_by_the_first_entries(
    customers: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(customers, *(group(f"{number} filler", name=f"Filler {number}") for number in range(30)))
    rescore(NOON)
    monkeypatch.setattr(lookup, "CANDIDATES", 5)
    monkeypatch.setattr(lookup, "matching_entries", lambda *about: pytest.fail("reads the index"))
    for term in ("filler", "fi", "f"):
        assert len(lookup.find(customers.pk, "account", term)) == 5
