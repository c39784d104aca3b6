"""``generate_data`` creates a product of any size that is ready to query."""

import json

import pytest
from django.core.management import CommandError, call_command

from core import progress
from engagement.models import Account, AccountEngagement, Event, Product, User
from harness.demo import loading
from readapi.models import ApiToken
from tests.start.test_commands import output_of

pytestmark = pytest.mark.django_db

SMALL = ("generate_data", "--accounts", "6", "--users", "30", "--days", "10")


def test_it_makes_a_product_and_prints_what_a_program_needs() -> None:
    output = json.loads(output_of(*SMALL, "--name", "Rocket", "--json"))
    product = Product.objects.get(name="Rocket")
    assert (product.pk, product.workspaces.get().pk) == (
        output["product_id"],
        output["workspace_id"],
    )
    assert ApiToken.objects.get(product=product).secret == output["api_token"]
    assert (Account.objects.count(), User.objects.count(), Event.objects.count()) == (6, 30, 0)
    rows = AccountEngagement.objects.filter(score_set=product.workspaces.get().scores)
    assert rows.filter(raw__gt=0).count() > 1


def test_it_prints_next_steps() -> None:
    text = output_of(*SMALL)
    assert "Generated has 6 accounts and 30 users, and is scored." in text
    assert ApiToken.objects.get().secret in text


def test_single_events_are_created_on_request() -> None:
    output_of(*SMALL, "--event-days", "400", "--activity", "100")
    assert Event.objects.count() > 300


def test_it_shows_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "LINE_INTERVAL", 0.0)
    printed = output_of(*SMALL, "--json")
    lines = capsys.readouterr().err.splitlines()
    assert "100% done, 30 users" in lines
    assert lines[-1].startswith("100% done, scoring")
    assert json.loads(printed)["product_id"] == Product.objects.get().pk


@pytest.mark.parametrize(
    ("option", "value", "range"),
    [
        ("--accounts", "0", "from 1 to 10,000,000"),
        ("--users", "many", "from 0 to 100,000,000"),
        ("--days", "-1", "from 1 to 400"),
        ("--activity", "101", "from 1 to 100"),
        ("--seed", "1.5", "from 0 to"),
    ],
)
def test_an_invalid_size_is_rejected(option: str, value: str, range: str) -> None:
    with pytest.raises(CommandError, match=f"{option}: give a whole number {range}"):
        call_command("generate_data", f"{option}={value}")
    assert not Product.objects.exists()


def test_an_interruption_prints_how_to_delete_the_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loading, "populate", interrupted)
    with pytest.raises(CommandError, match="interrupted") as raised:
        call_command(*SMALL)
    assert f"manage.py delete_product {Product.objects.get().pk}" in str(raised.value)
    assert raised.value.returncode == 130
