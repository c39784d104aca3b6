"""The commands ``forget`` and ``delete_product``."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from core.progress import ProgressReporter
from engagement.models import Product
from tests.engagement.history import identify, tell, track
from tests.pipeline.waiting import counts, drain, dropped, wait

pytestmark = pytest.mark.django_db

# Commands use the real clock.
SOON = datetime.now(UTC) + timedelta(minutes=1)


def output_of(*arguments: str) -> str:
    output = io.StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()


# --- forget ---------------------------------------------------------------------------------


def test_forget_deletes_a_user(acme: Product) -> None:
    tell(acme, identify("ada"), track("ada"), track("bob"))
    output = output_of("forget", "--product", "Acme", "--user", "ada")
    assert "user ada: forgotten with all data" in output and "dropped" not in output
    assert set(counts(acme)) == {("bob", "opened")}


def test_forget_deletes_an_account_and_suppresses_it(acme: Product, acme_key: str) -> None:
    tell(acme, identify("ada", group="initech"))
    output = output_of("forget", "--product", str(acme.pk), "--account", "initech", "--suppress")
    assert "Later messages about it are dropped" in output
    wait(acme_key, track("ada", group="initech"))
    drain(SOON)
    assert [reason for _, reason in dropped()] == ["forgotten"]


def test_forget_says_that_there_is_no_such_user(acme: Product) -> None:
    assert "no such user" in output_of("forget", "--product", "Acme", "--user", "ada")


def test_forget_takes_several_and_reports_each(acme: Product, globex: Product) -> None:
    for product in (acme, globex):
        tell(product, *(track(user) for user in ("ada", "bob", "eve")))
        tell(product, track("zoe", group="initech"))
    ids = ("--user", "ada", "--user", "nobody", "--user", "bob", "--user", "ada")
    lines = output_of("forget", "--product", "Acme", *ids, "--account", "initech").splitlines()
    assert [line.split(";")[0] for line in lines] == [
        "user ada: forgotten with all data.",
        "user nobody: no such user",
        "user bob: forgotten with all data.",
        "account initech: forgotten with all data.",
        "Everything is deleted. Scores follow within seconds.",
    ]
    assert set(counts(acme)) == {("eve", "opened")}
    assert len(counts(globex)) == 4


def test_forget_deletes_nobody_if_one_id_is_wrong(acme: Product) -> None:
    tell(acme, track("ada"), track("bob"))
    with pytest.raises(CommandError, match="the user id is empty"):
        output_of("forget", "--product", "Acme", "--user", "ada", "--user", "")
    assert len(counts(acme)) == 2


def test_forget_lifts_a_suppression(acme: Product, acme_key: str) -> None:
    lift = ("forget", "--product", "Acme", "--user", "ada", "--allow-again")
    assert "nothing to do" in output_of(*lift)
    output_of("forget", "--product", "Acme", "--user", "ada", "--suppress")
    assert "accepted again" in output_of(*lift)
    wait(acme_key, track("ada"))
    drain(SOON)
    assert counts(acme) == {("ada", "opened"): 1}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--product", "Acme"], "name at least one --user or --account"),
        (["--product", "Acme", "--user", ""], "the user id is empty"),
        (["--product", "Acme", "--account", " "], "the account id is empty"),
        (["--product", "Acme", "--user", "a" * 513], "is longer than 512 characters"),
        (["--product", "Hooli", "--user", "a"], "there is no product 'Hooli'; the products are: "),
        (["--product", "999999", "--user", "a"], "there is no product '999999'"),
        (["--product", "9" * 30, "--user", "a"], "there is no product"),
        (["--product", "Twice", "--user", "a"], "several products are named 'Twice'; use its id"),
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
    output = output_of("delete_product", str(acme.pk), "--yes")
    assert output.startswith("Deleted the product Acme and ")
    assert list(Product.objects.all()) == [globex]


@pytest.mark.parametrize(("typed", "is_deleted"), [("Acme", True), ("acme", False), ("", False)])
def test_delete_product_asks_for_the_name(
    typed: str, is_deleted: bool, acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: typed)
    if is_deleted:
        output_of("delete_product", "Acme")
    else:
        with pytest.raises(CommandError, match="the name does not match; nothing was deleted"):
            output_of("delete_product", "Acme")
    assert Product.objects.exists() is not is_deleted


def test_delete_product_deletes_nothing_without_a_terminal(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", nobody)
    with pytest.raises(CommandError, match="use --yes"):
        output_of("delete_product", "Acme")
    assert Product.objects.exists()


# --- Progress -------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress_output(output: io.StringIO, total: int | None) -> str:
    """The output of a job with a hundred steps, one a second."""
    now = 0.0
    progress = ProgressReporter(output, total, lambda: now)
    for step in range(1, 101):
        now += 1
        progress.show(step, f"{step} rows")
    progress.finish()
    return output.getvalue()


def test_progress_without_a_terminal_is_a_line_every_ten_seconds() -> None:
    lines = progress_output(io.StringIO(), 100).splitlines()
    assert lines == [f"{percent}% done, {percent} rows" for percent in range(10, 101, 10)]
    assert progress_output(io.StringIO(), None).splitlines()[0] == "10 rows"


def test_progress_is_a_bar_on_a_terminal_and_leaves_nothing_behind() -> None:
    lines = progress_output(Terminal(), 100).split("\r")
    assert lines[50] == "█" * 15 + "░" * 15 + "  50%  50 rows"
    assert lines[-2].strip() == lines[-1] == ""


def test_progress_beyond_the_total_is_100_percent() -> None:
    progress = ProgressReporter(output := Terminal(), 10, lambda: 0.0)
    progress.show(20, "20 rows")
    assert "100%" in output.getvalue()
