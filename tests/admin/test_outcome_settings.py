"""Which traits have a history, and which outcomes a workspace looks at, on their pages."""

from typing import Any

from django.test import Client
from django.urls import reverse

from engagement.models import Product, Workspace
from outcomes.kinds import Kind
from outcomes.settings import OutcomeSettings, kinds_on, load_settings
from outcomes.sources import licenses
from tests.admin.rows import Rows
from tests.admin.test_audiences import page, profile
from tests.admin.test_history import history, labels, save


def stored(rows: Rows) -> OutcomeSettings:
    return load_settings(Workspace.objects.get(pk=rows.workspace.pk))


def traits(rows: Rows) -> dict[str, str]:
    names: dict[str, str] = Product.objects.get(pk=rows.product.pk).history_traits
    return names


def choose(rows: Rows, **names: str) -> None:
    Product.objects.filter(pk=rows.product.pk).update(history_traits=names)


def test_a_manager_chooses_traits_and_a_chosen_one_keeps_its_day(
    member: Client, acme_rows: Rows
) -> None:
    choose(acme_rows, plan="2026-01-02", gone="2026-01-03")
    save(member, "engagement_product", acme_rows.product.pk, history=" status \nplan\n\nAM.Tier\n")
    assert set(traits(acme_rows)) == {"am.tier", "plan", "status"}
    assert traits(acme_rows)["plan"] == "2026-01-02" < traits(acme_rows)["status"]
    assert labels("product") == [("maya", "Changed Traits with a history.")]
    entry = history(member, "engagement_product", acme_rows.product.pk)
    assert "status" in entry and "gone" in entry


def test_more_than_ten_traits_are_refused(member: Client, acme_rows: Rows) -> None:
    address = reverse("admin:engagement_product_change", args=[acme_rows.product.pk])
    names = "\n".join(f"trait{number}" for number in range(11))
    html = member.post(address, {"name": "Acme", "history": names}).content.decode()
    assert "Choose at most 10 traits." in html
    assert traits(acme_rows) == {}


def test_a_viewer_sees_the_traits(reader: Client, acme_rows: Rows) -> None:
    choose(acme_rows, status="2026-01-02")
    address = reverse("admin:engagement_product_change", args=[acme_rows.product.pk])
    html = reader.get(address).content.decode()
    assert "status" in html and 'name="history"' not in html


def test_a_manager_leaves_out_a_kind_and_says_what_is_bad(member: Client, acme_rows: Rows) -> None:
    licenses.follow(acme_rows.product.pk, 1)
    choose(acme_rows, status="2026-01-02")
    html = member.get(page(acme_rows)).content.decode()
    for label in ("Renewals", "Monthly stays", "Evaluations", "Dormancy"):
        assert label in html
    assert set(kinds_on(acme_rows.workspace)) == {*licenses.KINDS, Kind.DORMANCY}
    form: dict[str, Any] = {"outcomes_off": ["evaluation"], "bad_trait": "status"}
    form |= {"bad_values": "churned\n\n lost \nchurned", "bad_below": "5"}
    assert member.post(page(acme_rows), profile(**form)).status_code == 302
    off = frozenset({Kind.EVALUATION})
    assert stored(acme_rows) == OutcomeSettings(off, "status", ("churned", "lost"), 5)
    workspace = Workspace.objects.get(pk=acme_rows.workspace.pk)
    on = [Kind.RENEWAL, Kind.MONTHLY_STAY, Kind.TRAIT, Kind.DORMANCY]
    assert kinds_on(workspace) == on
    html = member.get(page(acme_rows)).content.decode()
    assert "churned\nlost</textarea>" in html
    assert "outcome" in history(member, "engagement_workspace", workspace.pk).lower()


def test_a_trait_without_bad_values_is_refused(member: Client, acme_rows: Rows) -> None:
    choose(acme_rows, status="2026-01-02")
    answer = member.post(page(acme_rows), profile(bad_trait="status"))
    assert "Enter the values that are bad" in answer.content.decode()
    assert member.post(page(acme_rows), profile(bad_trait="other")).status_code == 200
    assert stored(acme_rows) == OutcomeSettings()


def test_what_is_saved_without_a_change_stays(member: Client, acme_rows: Rows) -> None:
    assert member.post(page(acme_rows), profile()).status_code == 302
    assert Workspace.objects.get(pk=acme_rows.workspace.pk).outcomes == {}


def test_a_viewer_reads_which_outcomes_there_are(reader: Client, acme_rows: Rows) -> None:
    choose(acme_rows, status="2026-01-02")
    Workspace.objects.filter(pk=acme_rows.workspace.pk).update(
        outcomes={"trait": "status", "values": ["lost"], "below": 2}
    )
    html = reader.get(page(acme_rows)).content.decode()
    assert "Trait, Dormancy. status becomes &quot;lost&quot; or below 2" in html
    assert 'name="outcomes_off"' not in html
