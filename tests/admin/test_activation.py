"""Activation in the admin: the form of steps, the funnel, and who is at which step."""

from typing import Any

import pytest
from django.test import Client

from access.models import TrailEntry
from console.lists.rows import ListQuery
from engagement.models import Account, Activation, Product, Segment, User
from engagement.rescoring import activation
from engagement.rescoring.jobs import ACTIVATION
from engagement.rescoring.rescore import rescore
from engagement.rules.steps import Step
from engagement.segments import activation as segments_by_steps
from tests.engagement.history import NOON, group, identify, tell, track
from tests.jobs import run_job

pytestmark = pytest.mark.django_db

STEPS = [
    Step("Open", "event", "opened", within_days=7),
    Step("Save twice", "event", "saved", at_least=2, within_days=7),
    Step("Pay", "trait", "plan", within_days=30),
]


@pytest.fixture
def funnel(acme: Product) -> str:
    """Initech is activated, hooli is stuck at the second step, and umbrella is on the way to the
    first. Returns the path of the workspace's pages."""
    tell(
        acme,
        group("initech", -24 * 20, plan="pro"),
        *(identify("ann", -24 * 20, "initech"), identify("bob", -24 * 20, "hooli")),
        *(identify("cem", -24, "umbrella"), track("ann", "opened", -24 * 19)),
        *(track("ann", "saved", -24 * 18), track("ann", "saved", -24 * 17)),
        track("bob", "opened", -24 * 20),
    )
    rescore(NOON)
    workspace = acme.workspaces.select_related("scores").get()
    activation.request(workspace, "account", STEPS)
    run_job(ACTIVATION, NOON)
    return f"/admin/engagement/workspace/{workspace.pk}"


def form(*rows: dict[str, Any], **buttons: str) -> dict[str, Any]:
    empty = {
        **{"kind": "event", "of": "", "at_least": "", "unit": "times", "operator": "is_set"},
        **{"value": "", "within_days": "", "name": ""},
    }
    return {field: [{**empty, **row}[field] for row in rows] for field in empty} | buttons


def test_the_page_says_who_is_at_which_step(member: Client, funnel: str, acme: Product) -> None:
    page = member.get(f"{funnel}/activation/").content.decode()
    assert "1</a> <small>of 3 accounts" in page
    # Ann's second time to save was three days after the first message.
    assert "<dd>3 (3 to 3) <small>median" in page
    for name in ("Open", "Save twice", "Pay"):
        assert name in page
    list_of_stuck = f"/admin/engagement/account/?workspace={acme.workspaces.get().pk}"
    assert f"{list_of_stuck}&amp;activation=stuck-Save+twice" in page
    stuck = member.get(f"{list_of_stuck}&activation=stuck-Save twice&columns=activation")
    text = stuck.content.decode()
    assert "hooli" in text
    assert "initech" not in text
    assert "1 of 3" in text
    assert "stuck at Save twice" in text

    users = member.get(f"{funnel}/activation/?subjects=user").content.decode()
    assert "Choose steps" in users
    # Without steps, nobody is stuck.
    nobody = member.get(f"{list_of_stuck.replace('account', 'user', 1)}&activation=stuck")
    assert "0 users" in nobody.content.decode()


def test_lists_of_many_walk_the_ranking(
    member: Client, funnel: str, acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = f"/admin/engagement/account/?workspace={acme.workspaces.get().pk}&activation="
    for few in (0, 20_000):
        monkeypatch.setattr(segments_by_steps, "FEW", few)
        for state, name in (("activated", "initech"), ("stuck", "hooli"), ("on_the_way", "umb")):
            page = member.get(accounts + state).content.decode()
            assert [each for each in ("initech", "hooli", "umb") if f">{each}" in page] == [name]


def test_of_many_a_list_says_the_number_of_the_funnel(
    member: Client, funnel: str, acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = f"/admin/engagement/account/?workspace={acme.workspaces.get().pk}&p=2&activation="
    states = ("activated", "stuck", "stuck-Save twice", "on_the_way", "on_the_way-Open")
    monkeypatch.setattr(segments_by_steps, "FEW", 0)
    with monkeypatch.context() as patch:
        patch.delattr(ListQuery, "_matching_rows")
        for state in states:
            assert "1 account<" in member.get(accounts + state).content.decode()
    assert "0 accounts<" in member.get(f"{accounts}stuck-Open").content.decode()


def test_weeks_as_csv(member: Client, funnel: str) -> None:
    response = member.get(f"{funnel}/activation/?file=csv")
    head, *lines = b"".join(response.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert head == "First seen in the week of,Over,First seen,Open,Save twice,Pay"
    assert lines[-1].split(",")[1:] == ["no", "1", "0", "0", "0"]
    assert [line for line in lines if line.endswith("2,2,1,1")] != []


def test_a_manager_edits_steps(member: Client, funnel: str, acme: Product) -> None:
    edit = f"{funnel}/edit-activation/"
    assert 'value="Save twice"' in member.get(edit).content.decode()
    rows = [{"of": "opened"}, {"of": "saved", "at_least": "3", "unit": "days", "name": "Return"}]

    # A button changes the rows, and saves nothing.
    added = member.post(edit, form(*rows, _add_step="1")).content.decode()
    assert added.count('name="of"') == 3
    moved = member.post(edit, form(*rows, _move_step="2")).content.decode()
    assert moved.index('value="saved"') < moved.index('value="opened"')
    removed = member.post(edit, form(*rows, _remove_step="1")).content.decode()
    assert 'value="opened"' not in removed.partition("datalist")[0]
    assert Activation.objects.count() == 1

    member.post(edit, form(*rows))
    building = Activation.objects.get(state=Activation.State.BUILDING)
    assert [step["name"] for step in building.steps] == ["Event “opened” within 14 days", "Return"]
    entry = TrailEntry.objects.get(kind="workspace")
    assert entry.changes["steps of accounts"][0].startswith("Open (Event “opened” within 7 days);")
    # Readers see the old ones until the new ones are computed.
    page = member.get(f"{funnel}/activation/").content.decode()
    assert "Until it finishes, you see the old steps." in page
    assert "Save twice" in page
    run_job(ACTIVATION, NOON)
    page = member.get(f"{funnel}/activation/").content.decode()
    assert "Save twice" not in page
    assert "Return" in page

    member.post(edit, form({}))
    run_job(ACTIVATION, NOON)
    assert not Activation.objects.exists()


def test_what_if_shows_both_funnels_and_saves_nothing(member: Client, funnel: str) -> None:
    rows = [{"of": "opened"}, {"of": "saved", "name": "Save"}]
    page = member.post(f"{funnel}/edit-activation/", form(*rows, _effect="1")).content.decode()
    part = member.post(f"{funnel}/activation-effect/", form(*rows)).content.decode()
    for text in (page, part):
        assert "Computed from all 3 accounts." in text
        assert "<caption>Now</caption>" in text
        assert "<caption>With these steps</caption>" in text
    assert Activation.objects.get().state == Activation.State.CURRENT


def test_what_the_form_refuses(member: Client, funnel: str, acme: Product) -> None:
    for rows, problem in (
        ([{"of": "opened", "at_least": "no"}], "Enter a whole number."),
        ([{"of": "opened", "at_least": "0"}], "from 1 to 10,000"),
        ([{"of": "opened", "within_days": "366"}], "from 1 to 365"),
        ([{"of": "opened", "unit": "days", "at_least": "15"}], "There are not as many days."),
        ([{"of": "opened"}, {"of": "opened"}], "Another step has this name."),
        (
            [{"of": "opened", "within_days": "9"}, {"of": "saved", "within_days": "8"}],
            "A step cannot end before the one above it.",
        ),
        ([{"name": "only a name"}], "Enter the event’s name."),
        ([{"kind": "trait", "of": "plan", "operator": "at_least", "value": "x"}], "Enter a number"),
        ([{"of": "x" * 300}], "Enter the event’s name."),
    ):
        page = member.post(f"{funnel}/edit-activation/", form(*rows)).content.decode()
        assert problem in page, problem
    assert Activation.objects.count() == 1

    Segment.objects.create(
        workspace=acme.workspaces.get(),
        scope="account",
        name="Lost",
        conditions=[{"kind": "activation", "state": "stuck", "step": "Save twice"}],
    )
    page = member.post(f"{funnel}/edit-activation/", form({"of": "opened"})).content.decode()
    assert "These segments use the step “Save twice”: Lost. Change them first." in page
    assert Activation.objects.count() == 1


def test_the_page_of_a_subject_has_its_steps(member: Client, funnel: str, acme: Product) -> None:
    # Initech did all, hooli is stuck at the second step, and umbrella has a week for the first.
    for name, state, expected in (
        ("initech", "activated", ["Done: </span>5 Sep 2026", "Done: </span>7 Sep 2026", "yes"]),
        ("hooli", "stuck", ["Done: </span>4 Sep 2026", "not by 10 Sep 2026", "until 3 Oct 2026"]),
        ("umbrella", "on the way", ["until 29 Sep 2026", "until 22 Oct 2026"]),
    ):
        account = Account.objects.get(product=acme, external_id=name)
        page = member.get(f"/admin/engagement/account/{account.pk}/change/").content.decode()
        card = page.partition('id="activation"')[2].partition("</fieldset>")[0]
        assert f">{state}<" in card
        for text in ("Event “saved” 2 times within 7 days", *expected):
            assert text in card
    # Users have no steps here.
    user = User.objects.get(product=acme, external_id="ann")
    page = member.get(f"/admin/engagement/user/{user.pk}/change/").content.decode()
    assert 'id="activation"' not in page
