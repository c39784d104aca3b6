"""Owners by rules: the first rule counts, what a person chose stays, and nights follow changes."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse

from access.trail.entries import COMMAND_LINE
from access.work import accounts, owners, rules, settings
from access.work.settings import Means, OwnerRule, Result, WorkSettings
from engagement.models import Account, AccountWork, Product, ProductMember, ScoreSet, Segment
from engagement.rescoring.rescore import rescore
from tests.admin.conftest import logged_in
from tests.engagement.history import NOON, group, tell
from tests.jobs import run_job

pytestmark = pytest.mark.django_db

PRO = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}


@pytest.fixture
def logins(acme: Product) -> list[AdminUser]:
    """Dana, Eve, and one of another product."""
    for name in ("dana", "eve"):
        login = AdminUser.objects.create_user(name, f"{name}@acme.example", is_staff=True)
        ProductMember.objects.create(product=acme, user=login)
    AdminUser.objects.create_user("mallory", "mallory@globex.example")
    return list(AdminUser.objects.order_by("username"))


@pytest.fixture
def segment(acme: Product, logins: list[AdminUser]) -> Segment:
    tell(
        acme,
        group("pro", plan="pro"),
        group("pro of eve", plan="pro", csm=" EVE@acme.example "),
        group("free", plan="free"),
        group("free of dana", plan="free", csm="dana"),
        group("of mallory", csm="mallory@globex.example"),
        group("by hand", plan="pro"),
        group("odd", csm=["dana"]),
    )
    rescore(NOON)
    return Segment.objects.create(
        workspace=acme.workspaces.get(), scope="account", name="Pro", conditions=[PRO]
    )


def use(product: Product, *own: OwnerRule) -> None:
    stored = settings.to_json(WorkSettings(rules=own, is_changed=True))
    Product.objects.filter(pk=product.pk).update(work=stored)
    run_job(rules.JOB, NOON)


def owners_of(product: Product) -> dict[str, str]:
    """Those of accounts with one."""
    rows = AccountWork.objects.filter(product=product).exclude(owner="")
    names = dict(Account.objects.filter(product=product).values_list("pk", "external_id"))
    return {names[row.account_id]: row.owner for row in rows}


def test_the_first_rule_that_names_an_owner_counts(
    acme: Product, segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "ACCOUNTS_PER_STEP", 2)
    by_hand = Account.objects.get(external_id="by hand")
    accounts.choose_owner(acme.pk, [by_hand.pk], "eve", COMMAND_LINE)
    of_trait, of_segment = OwnerRule(trait="csm"), OwnerRule(segment.pk, "dana")
    use(acme, of_trait, of_segment)
    everybody = {"pro": "dana", "free of dana": "dana", "by hand": "eve"}
    assert owners_of(acme) == {**everybody, "pro of eve": "eve"}
    use(acme, of_segment, of_trait)
    assert owners_of(acme) == {**everybody, "pro of eve": "dana"}
    # A rule of a login that may not see the product, or of a segment that is gone, says nothing.
    use(acme, OwnerRule(segment.pk, "mallory"), OwnerRule(10**9, "dana"))
    assert owners_of(acme) == {"by hand": "eve"}
    # A person gives the choice back to the rules.
    accounts.choose_owner(acme.pk, [by_hand.pk], accounts.BY_RULES, COMMAND_LINE)
    assert owners_of(acme) == {"by hand": "eve"}
    use(acme, of_segment)
    assert owners_of(acme)["by hand"] == "dana"


def test_rules_are_applied_again_when_they_change_and_every_night(
    acme: Product, globex: Product, segment: Segment
) -> None:
    assert rules.due_products() == []
    use(acme, OwnerRule(segment.pk, "dana"))
    assert rules.due_products() == []
    tell(acme, group("free", hours=1, plan="pro"))
    rescore(NOON)
    assert "free" not in owners_of(acme), "Only the night looks again."
    ScoreSet.objects.filter(product=acme).update(scored_day=NOON.date() + timedelta(days=1))
    assert rules.due_products() == [acme.pk]
    run_job(rules.JOB, NOON)
    assert owners_of(acme)["free"] == "dana" and rules.due_products() == []
    # Without rules, what they chose is nobody's again.
    use(acme)
    assert owners_of(acme) == {} and rules.due_products() == []


def test_tags_stay_when_rules_choose(acme: Product, segment: Segment) -> None:
    pro = Account.objects.get(external_id="pro")
    accounts.add_tag(acme.pk, [pro.pk], "vip", COMMAND_LINE)
    use(acme, OwnerRule(segment.pk, "dana"))
    assert accounts.work_of(acme.pk, [pro.pk])[pro.pk].tags == ["vip"]
    owners.replace(acme.pk, "dana", "")
    assert owners_of(acme) == {}


def formset(prefix: str, *rows: dict[str, object]) -> dict[str, object]:
    fields = {
        f"{prefix}-{n}-{key}": value for n, row in enumerate(rows) for key, value in row.items()
    }
    return {f"{prefix}-TOTAL_FORMS": len(rows), f"{prefix}-INITIAL_FORMS": 0, **fields}


def test_managers_change_rules_and_results(acme: Product, segment: Segment) -> None:
    ProductMember.objects.filter(user__username="dana").update(role="manager")
    dana = logged_in(AdminUser.objects.get(username="dana"))
    address = reverse("admin:engagement_product_work", args=[acme.pk])
    row: dict[str, Any] = {"segment": segment.pk, "owner": "eve", "trait": ""}
    empty: dict[str, Any] = {"segment": "", "owner": "", "trait": ""}
    upsold: dict[str, Any] = {"name": " upsold ", "means": "good"}
    posted = {**formset("rule", row, empty), **formset("result", upsold, {"means": "good"})}
    assert "Saved." in dana.post(address, posted, follow=True).content.decode()
    acme.refresh_from_db()
    own = settings.load(acme)
    assert own.rules == (OwnerRule(segment.pk, "eve"),) and own.is_changed
    assert own.results == (Result("upsold", Means.GOOD),)
    assert settings.results_of(acme)["upsold"] is Means.GOOD
    html = dana.get(address).content.decode()
    assert 'value="upsold"' in html and '<option value="eve" selected>eve</option>' in html
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({**row, "trait": "csm"}, "Choose a segment and an owner, or enter a trait."),
        ({**empty, "owner": "eve"}, "A rule needs a segment and an owner."),
        ({**row, "owner": "mallory"}, "Select a valid choice"),
    )
    for values, message in refused:
        posted = {**formset("rule", values), **formset("result")}
        assert message in dana.post(address, posted).content.decode()
    posted = {**formset("rule"), **formset("result", {"name": "saved", "means": "bad"})}
    assert "This result is there anyway." in dana.post(address, posted).content.decode()
    eve = Client()
    eve.force_login(AdminUser.objects.get(username="eve"))
    assert eve.get(address).status_code == 403
