"""``forget`` and ``delete_product`` as people type them."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from engagement.core.progress import ProgressReporter
from engagement.models import Product
from tests.engagement.history import identify, tell, track
from tests.pipeline.waiting import counts, drain, dropped, wait

pytestmark = pytest.mark.django_db

# Commands go by the real clock.
SOON = datetime.now(UTC) + timedelta(minutes=1)


def output_of(*arguments: str) -> str:
    written = io.StringIO()
    call_command(*arguments, stdout=written)
    return written.getvalue()


# --- forget ---------------------------------------------------------------------------------


def test_forget_deletes_a_user(acme: Product) -> None:
    tell(acme, identify("ada"), track("ada"), track("bob"))
    said = output_of("forget", "--product", "Acme", "--user", "ada")
    assert "User deleted, with everything" in said and "dropped" not in said
    assert set(counts(acme)) == {("bob", "opened")}


def test_forget_deletes_an_account_and_keeps_it_away(acme: Product, acme_key: str) -> None:
    tell(acme, identify("ada", group="initech"))
    said = output_of("forget", "--product", str(acme.pk), "--account", "initech", "--suppress")
    assert "Later messages that name it are dropped" in said
    wait(acme_key, track("ada", group="initech"))
    drain(SOON)
    assert [reason for _, reason in dropped()] == ["forgotten"]


def test_forget_says_when_nobody_was_known(acme: Product) -> None:
    assert "No such user" in output_of("forget", "--product", "Acme", "--user", "ada")


def test_forget_takes_a_suppression_back(acme: Product, acme_key: str) -> None:
    take_back = ("forget", "--product", "Acme", "--user", "ada", "--allow-again")
    assert "Nothing to do" in output_of(*take_back)
    output_of("forget", "--product", "Acme", "--user", "ada", "--suppress")
    assert "taken again" in output_of(*take_back)
    wait(acme_key, track("ada"))
    drain(SOON)
    assert counts(acme) == {("ada", "opened"): 1}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--product", "Acme"], "one of the arguments --user --account is required"),
        (["--product", "Acme", "--user", "a", "--account", "b"], "not allowed with argument"),
        (["--product", "Acme", "--user", ""], "the user id is empty"),
        (["--product", "Hooli", "--user", "a"], "there is no product 'Hooli'; there are: "),
        (["--product", "999999", "--user", "a"], "there is no product '999999'"),
        (["--product", "9" * 30, "--user", "a"], "there is no product"),
        (["--product", "Twice", "--user", "a"], "several products are named 'Twice'; give the id"),
        (["--product", "Acme", "--user", "a", "--suppress", "--allow-again"], "not allowed with"),
    ],
)
def test_forget_says_what_is_wrong(acme: Product, arguments: list[str], reason: str) -> None:
    for _ in range(2):
        Product.create_with_workspace("Twice")
    with pytest.raises(CommandError, match=reason):
        output_of("forget", *arguments)


# --- delete_product -------------------------------------------------------------------------


def test_delete_product_deletes_it_and_says_so(acme: Product, globex: Product) -> None:
    tell(acme, identify("ada"), track("ada"))
    said = output_of("delete_product", str(acme.pk), "--yes")
    assert said.startswith("Deleted the product Acme with ")
    assert list(Product.objects.all()) == [globex]


@pytest.mark.parametrize(("typed", "is_deleted"), [("Acme", True), ("acme", False), ("", False)])
def test_delete_product_asks_for_the_name(
    typed: str, is_deleted: bool, acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: typed)
    if is_deleted:
        output_of("delete_product", "Acme")
    else:
        with pytest.raises(CommandError, match="that is not its name; nothing was deleted"):
            output_of("delete_product", "Acme")
    assert Product.objects.exists() is not is_deleted


def test_delete_product_deletes_nothing_where_nobody_can_be_asked(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", nobody)
    with pytest.raises(CommandError, match="--yes deletes without asking"):
        output_of("delete_product", "Acme")
    assert Product.objects.exists()


# --- Progress -------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(output: io.StringIO, total: int | None) -> str:
    """What is written for a work of a hundred steps, one a second."""
    now = 0.0
    progress = ProgressReporter(output, total, lambda: now)
    for step in range(1, 101):
        now += 1
        progress.show(step, f"{step} rows")
    progress.finish()
    return output.getvalue()


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal() -> None:
    lines = watched(io.StringIO(), 100).splitlines()
    assert lines == [f"{done}% done, {done} rows" for done in range(10, 101, 10)]
    assert watched(io.StringIO(), None).splitlines()[0] == "10 rows"


def test_progress_is_a_bar_on_a_terminal_and_leaves_nothing_behind() -> None:
    written = watched(Terminal(), 100).split("\r")
    assert written[50] == "█" * 15 + "░" * 15 + "  50%  50 rows"
    assert written[-2].strip() == written[-1] == ""


def test_progress_beyond_what_was_expected_is_complete() -> None:
    progress = ProgressReporter(output := Terminal(), 10, lambda: 0.0)
    progress.show(20, "20 rows")
    assert "100%" in output.getvalue()
