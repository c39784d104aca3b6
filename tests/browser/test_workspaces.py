"""Changing a workspace's scoring in a browser, and its effect."""

from datetime import timedelta

import pytest
from django.utils import timezone

from engagement.messages import Identify, ReceivedMessage, Track
from engagement.models import Product, Segment, Workspace
from engagement.recording.record import record
from engagement.rescoring.rescore import rescore
from tests.browser.browsing import NARROW, Browser
from tests.browser.conftest import LogIn

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ours(acme: Product) -> Workspace:
    """Ann opened nine times, Bob shared four times, each in an account."""
    now = timezone.now()
    messages: list[Identify | Track] = []
    for name, event, times in (("ann", "opened", 9), ("bob", "shared", 4)):
        messages.append(Identify(name, now - timedelta(days=9), {}, f"{name} ltd"))
        messages += [Track(name, event, now - timedelta(minutes=number)) for number in range(times)]
    record(
        [
            ReceivedMessage(acme.pk, 2_000_000 + n, now, message)
            for n, message in enumerate(messages)
        ]
    )
    rescore(now)
    return acme.workspaces.get()


def unfold(browser: Browser) -> None:
    """Open the folded parts of the page."""
    browser.driver.execute_script(
        "for (const part of document.querySelectorAll('.module > details')) part.open = true;"
    )


def ranked(browser: Browser, side: str) -> list[str]:
    """The names and moves of the users in that table."""
    rows = browser.texts(f"section[aria-label=Users] .eds-tables table:{side}-of-type tr")
    return [" ".join(row.split()[1:-1]) for row in rows]


def test_a_manager_sees_the_effect_of_a_weight_saves_it_and_follows_the_scores(
    as_member: LogIn, ours: Workspace
) -> None:
    browser = as_member("manager")
    browser.open(f"/admin/engagement/workspace/{ours.pk}/change/")
    assert browser.texts(".eds-events tbody tr")[1].startswith("shared Who uses it 4 31%")
    assert ranked(browser, "last") == ["ann", "bob"]

    # Choosing a weight in the row of the event shows its effect.
    browser.find("[aria-label='Weight of “shared”'] option[value='10']").click()
    browser.wait_until(lambda: ranked(browser, "last") == ["bob ▲ 1", "ann ▼ 1"])
    assert ranked(browser, "first") == ["ann", "bob"]
    assert not ours.weights.exists()
    for width in (NARROW, 1280):
        browser.resize(width)
        assert not browser.is_too_wide()

    browser.press("input[name=_save]")
    assert ours.weights.get().weight == 10
    assert "Weight of shared is 10 now. 2 accounts move." in browser.text
    unfold(browser)
    browser.wait_for_text("Recalculating (users next).")
    assert ranked(browser, "last") == ["ann", "bob"]
    rescore(timezone.now())
    browser.wait_for_text("Up to date through")
    browser.open(browser.path)
    assert ranked(browser, "last") == ["bob", "ann"]
    assert browser.complaints() == []


def test_a_choice_shows_its_effect_without_a_word_written(
    as_member: LogIn, ours: Workspace
) -> None:
    browser = as_member("manager")
    browser.open(f"/admin/engagement/workspace/{ours.pk}/change/")
    browser.find("#id_lookback_days option[value='30']").click()
    browser.wait_for_text("Computed for all users and accounts, as saving would.")
    assert ranked(browser, "last") == ["ann", "bob"]
    assert browser.complaints() == []


def test_events_that_are_not_seen_yet_get_weights_in_added_rows(
    as_member: LogIn, ours: Workspace
) -> None:
    browser = as_member("manager")
    browser.open(f"/admin/engagement/workspace/{ours.pk}/change/")
    rows = len(browser.all(".eds-events tbody tr"))
    add = browser.find("[name=_weigh]")
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", add)
    add.click()
    assert len(browser.all(".eds-events tbody tr")) == rows + 1
    for number, name in ((rows - 1, "paid"), (rows, "invited")):
        browser.fill(f"id_weights-{number}-event", name)
        browser.find(f"#id_weights-{number}-weight option[value='3']").click()
    browser.press("input[name=_save]")
    weights = dict(ours.weights.values_list("event_name__name", "weight"))
    assert weights == {"paid": 3, "invited": 3}
    assert browser.complaints() == []


@pytest.mark.parametrize("kind", ["segment", "workspace"])
def test_conditions_are_counted_while_one_writes(
    as_member: LogIn, ours: Workspace, kind: str
) -> None:
    segment = Segment.objects.create(
        workspace=ours, scope=Segment.Scope.USER, name="Mine", conditions=[]
    )
    browser = as_member("manager")
    pk = segment.pk if kind == "segment" else ours.pk
    browser.open(f"/admin/engagement/{kind}/{pk}/change/")
    rows = len(browser.all(".eds-rows > *"))
    add = browser.find("[name=_add_condition]")
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", add)
    add.click()
    browser.wait_until(lambda: len(browser.all(".eds-rows > *")) == rows + 1)
    last = browser.all(".eds-rows > *")[-1]
    last.find_element("css selector", ".eds-what option[value=event]").click()
    last.find_element("css selector", "[name$='-event']").send_keys("shared")
    browser.wait_for_text("1 user matches")
    assert "bob" in browser.find(".eds-preview").text
    remove = last.find_element("css selector", "[name=_remove_condition]")
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", remove)
    remove.click()
    browser.wait_until(lambda: "1 user matches" not in browser.find(".eds-preview").text)
    assert not last.is_displayed()
    assert browser.complaints() == []


def test_the_table_of_events_is_first_and_a_search_finds_a_row(
    as_member: LogIn, ours: Workspace
) -> None:
    browser = as_member("manager")
    browser.open(f"/admin/engagement/workspace/{ours.pk}/change/")
    assert browser.find(".eds-events").rect["y"] < 400
    browser.find("#event-term").send_keys("SHA")
    browser.wait_until(lambda: not browser.texts(".eds-events tbody tr")[0])
    assert browser.texts(".eds-events tbody tr")[1].startswith("shared")
    # Without a script, the button loads the page with the rows that match.
    browser.open(f"/admin/engagement/workspace/{ours.pk}/change/?event=SHA")
    assert [text[:6] for text in browser.texts(".eds-events tbody tr")[:2]] == ["", "shared"]
    assert browser.complaints() == []
