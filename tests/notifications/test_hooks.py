"""Tools of automation add and remove webhooks by API, and can do nothing else."""

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from access.models import TrailEntry
from engagement.models import Product, ProductMember
from notifications.delivery.deliver import deliver
from notifications.hooks import managing as hooks
from notifications.models import Destination, OutboxMessage, Subscription
from notifications.triggers import TRIGGERS
from readapi.models import ApiToken
from tests.admin.conftest import logged_in
from tests.engagement.history import identify, tell, track
from tests.notifications.receiver import Receiver
from tests.notifications.rows import Clock, a_destination, a_segment, settle, subscribe
from tests.readapi.scored import fill
from tests.readapi.statements import statements_by_database
from tests.secrets import Secrets

HOOK = {"target_url": "https://93.184.216.34/catch/planted", "event": "score.crossed"}
ADDRESSES = ["/v2/hooks", "/v2/hooks/samples?event=score.crossed", "/v2/hooks/1"]


class Tool:
    """Zapier or n8n, with a token of the product."""

    def __init__(self, product: Product, **rights: Any) -> None:
        values = {"manages_hooks": True, "reads": "nothing", "may_use_mcp": False, **rights}
        self.token = ApiToken.create(product, "Zapier", **values)
        self.client = Client(headers={"authorization": f"Bearer {self.token.secret}"})
        self.workspace = product.workspaces.earliest("pk")

    def add(self, **values: Any) -> Any:
        body = {**HOOK, "workspace_id": self.workspace.pk, **values}
        body = {name: value for name, value in body.items() if value is not None}
        return self.client.post("/v2/hooks", json.dumps(body), content_type="application/json")

    def refusal(self, **values: Any) -> tuple[str, str]:
        answer = self.add(**values)
        assert answer.status_code == 400, answer.content
        error = answer.json()["error"]
        return error.get("field", ""), error["message"]

    def listed(self, **query: Any) -> list[Any]:
        data: list[Any] = self.client.get("/v2/hooks", query).json()["data"]
        return data


@pytest.fixture
def tool(acme: Product) -> Tool:
    return Tool(acme)


def test_a_hook_from_its_addition_to_its_removal(
    acme: Product, tool: Tool, receiver: Receiver, clock: Clock
) -> None:
    fill(acme)
    url = f"{receiver.url}/catch/planted"
    answer = tool.add(
        target_url=url, parameters={"scope": "user", "threshold": 50, "direction": "up"}
    )
    assert answer.status_code == 201, answer.content
    hook = answer.json()
    assert hook["secret"].startswith("whsec_") and "planted" not in hook["target"]
    assert hook["parameters"] == {
        "scope": "user", "threshold": 50.0, "direction": "up", "quiet_hours": 24,
    }  # fmt: skip
    # No test message: it would run the flow of the tool.
    deliver(clock)
    assert receiver.received == []
    # A repeated request is the same hook.
    again = tool.add(
        target_url=url, parameters={"scope": "user", "threshold": 50, "direction": "up"}
    )
    assert again.json() == hook and Destination.objects.count() == 1
    del hook["secret"]
    assert tool.listed() == tool.listed(target_url=url) == [hook]
    assert tool.listed(target_url=f"{url}/other") == []
    settle(clock)
    tell(acme, identify("dee", group="hooli"), *(track("dee", "shared") for _ in range(50)))
    settle(clock)
    deliver(clock)
    (message,) = receiver.received
    assert message.content["id"] == message.id and message.content["type"] == "score.crossed"
    assert message.data["user"]["tracking_id"] == "dee"
    for _ in range(2):
        assert tool.client.delete(f"/v2/hooks/{hook['id']}").status_code == 204
    assert not Destination.objects.exists() and not Subscription.objects.exists()
    entries = TrailEntry.objects.filter(kind="hook").order_by("pk")
    assert [(each.action, each.person, each.object_name) for each in entries] == [
        ("added", "hook token Zapier", "score.crossed"),
        ("deleted", "hook token Zapier", "score.crossed"),
    ]
    assert "planted" not in str(list(TrailEntry.objects.values()))


def test_a_read_token_cannot_write_and_a_hook_token_cannot_read(
    acme: Product, acme_token: str, tool: Tool
) -> None:
    reader = Client(headers={"authorization": f"Bearer {acme_token}"})
    for address in ADDRESSES:
        for method in ("GET", "POST", "DELETE"):
            assert reader.generic(method, address, "{}").status_code == 403, address
    workspace = tool.workspace.pk
    # Even if somebody gave it all rights of a reader.
    ApiToken.objects.filter(pk=tool.token.pk).update(
        reads="all", may_use_mcp=True, may_read_metrics=True
    )
    for address in (
        "/v2/workspaces", f"/v2/accounts?workspace_id={workspace}", "/metrics",
        f"/v2/users?workspace_id={workspace}", f"/v1/accounts?workspace_id={workspace}&id=1",
    ):  # fmt: skip
        answer = tool.client.get(address)
        assert answer.status_code == 403 and "hook token" in answer.content.decode(), address
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert tool.client.post("/mcp", ping, content_type="application/json").status_code == 403
    for unknown in (Client(), Client(headers={"authorization": "Bearer eds_wrong"})):
        assert unknown.get("/v2/hooks").status_code == 401
    ApiToken.objects.update(networks=["203.0.113.0/24"])
    assert tool.client.get("/v2/hooks").status_code == 403
    ApiToken.objects.update(networks=None, expires_at=timezone.now() - timedelta(days=1))
    assert tool.client.get("/v2/hooks").status_code == 401


def test_hooks_of_another_product_and_those_of_people_stay_alone(
    acme: Product, globex: Product, tool: Tool
) -> None:
    other = Tool(globex)
    theirs = other.add().json()["id"]
    by_hand = subscribe(a_destination(acme, url=HOOK["target_url"]), "segment_entered",
                        segment=a_segment(acme))  # fmt: skip
    for id in (theirs, by_hand.pk):
        assert tool.client.delete(f"/v2/hooks/{id}").status_code == 204
    assert tool.listed() == [] and tool.listed(target_url=HOOK["target_url"]) == []
    assert Subscription.objects.count() == 2 and len(other.listed()) == 1
    field, _ = tool.refusal(workspace_id=other.workspace.pk)
    assert field == "workspace_id"
    segment = a_segment(globex)
    for name in ("segment_id", "filter_segment_id"):
        parameters = {"segment_id": a_segment(acme, name=name).pk} | {name: segment.pk}
        field, _ = tool.refusal(event="segment.entered", parameters=parameters)
        assert field == name
    narrow = Tool(acme, workspace_ids=[0])
    assert narrow.refusal()[0] == "workspace_id"
    assert narrow.refusal(event="ingestion.quarantine", workspace_id=None)[0] == "event"


def test_what_a_request_cannot_have_is_said(acme: Product, tool: Tool) -> None:
    for values, field, text in (
        ({"event": "nothing"}, "event", "event accepts: account.first_event"),
        ({"workspace_id": None}, "workspace_id", "must be a workspace"),
        ({"parameters": {"threshold": 900}}, "threshold", "a number from 0.1 to 100"),
        ({"parameters": {"insight": "x"}}, "insight", "score.crossed has no parameter insight"),
        ({"parameters": {"quiet_hours": 5}}, "quiet_hours", "not accepted"),
        ({"parameters": {"traits": ["a"] * 99}}, "traits", "not accepted"),
        ({"parameters": {"other": 1}}, "", "unknown field `other`"),
        ({"event": "segment.entered"}, "segment_id", "is required"),
        ({"event": "insight.started", "parameters": {"insight": "x"}}, "insight", "accepts:"),
        ({"target_url": "http://u:p@planted.example"}, "target_url", "user name or a password"),
        ({"target_url": "http://127.0.0.1/planted"}, "target_url", "private or reserved"),
        ({"target_url": "https://10.0.0.1/planted"}, "target_url", "private or reserved"),
        ({"target_url": "http://93.184.216.34/planted"}, "target_url", "begin with https://"),
        ({"target_url": "https://nowhere.invalid/"}, "target_url", "has no address"),
    ):
        found_field, message = tool.refusal(**values)
        assert (found_field, text in message) == (field, True), message
        assert "planted" not in message
    assert tool.client.post("/v2/hooks", "{", content_type="application/json").status_code == 400
    assert tool.client.put("/v2/hooks").status_code == 405
    assert tool.client.get("/v2/hooks?other=1").status_code == 400
    assert not Destination.objects.exists()


def test_a_product_has_a_bounded_number_of_hooks(
    acme: Product, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "MAX_HOOKS", 2)
    for number in range(2):
        assert tool.add(target_url=f"{HOOK['target_url']}{number}").status_code == 201
    assert "at most 2 hooks" in tool.refusal()[1]


def test_each_event_can_be_hooked_and_has_samples(acme: Product, tool: Tool) -> None:
    """As Zapier wants them: a list at the top, each with an id, in the shape of the messages."""
    segment = a_segment(acme)
    needs: dict[str, dict[str, Any]] = {
        "segment": {"segment_id": segment.pk},
        "insight": {"insight": "trend_down"},
    }
    for event, trigger in hooks.events().items():
        messages = tool.client.get("/v2/hooks/samples", {"event": event}).json()
        assert {message["type"] for message in messages} == {event}
        assert len({message["id"] for message in messages}) == len(messages) > 0
        parameters: dict[str, Any] = {}
        for name in TRIGGERS[trigger].parameters:
            parameters.update(needs.get(name, {}))
        answer = tool.add(event=event, parameters=parameters)
        assert answer.status_code == 201, answer.content
    refused = tool.client.get("/v2/hooks/samples", {"event": "x"})
    assert refused.status_code == 400 and refused.json()["error"]["field"] == "event"


def test_a_receiver_that_answers_410_ends_its_hook(
    acme: Product, tool: Tool, receiver: Receiver, clock: Clock
) -> None:
    receiver.answer = lambda _: 410
    tool.add(target_url=receiver.url)
    by_hand = a_destination(acme, url=receiver.url)
    for destination in Destination.objects.all():
        OutboxMessage.objects.create(
            product=acme, destination=destination, message_id=f"msg_{destination.pk}", title="x",
            payload={"type": "score.crossed"}, next_attempt_at=clock.now,
        )  # fmt: skip
    deliver(clock)
    assert len(receiver.received) == 2
    assert list(Destination.objects.values_list("pk", "state")) == [(by_hand.pk, "paused")]


def test_people_see_hooks_and_remove_them_and_no_form_offers_them(
    acme: Product, tool: Tool
) -> None:
    tool.add()
    user = AdminUser.objects.create_user("ann", is_staff=True)
    ProductMember.objects.create(product=acme, user=user, role=ProductMember.Role.MANAGER)
    manager = logged_in(user)
    destination = Destination.objects.get()
    listed = manager.get(reverse("admin:notifications_destination_changelist")).content.decode()
    assert destination.name in listed and "planted" not in listed
    add = reverse("admin:notifications_subscription_add")
    assert destination.name not in manager.get(add).content.decode()
    page = reverse("admin:notifications_destination_change", args=[destination.pk])
    html = manager.get(page).content.decode()
    assert "planted" not in html and "Added by API" in html and "Add a subscription" not in html
    # Its subscription can be changed, and keeps it.
    (subscription,) = Subscription.objects.all()
    page = reverse("admin:notifications_subscription_change", args=[subscription.pk])
    form = manager.get(page).context["adminform"].form
    assert (str(destination.pk), destination.name) in form.fields["destination"].choices
    values = {name: value for name, value in form.initial.items() if value is not None}
    answer = manager.post(page, {**values, "threshold": 40})
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    subscription.refresh_from_db()
    assert (subscription.threshold, subscription.destination_id) == (40, destination.pk)
    remove = reverse("admin:notifications_destination_delete", args=[destination.pk])
    manager.post(remove, {"post": "yes"})
    assert tool.listed() == []


def test_the_form_of_tokens_makes_a_hook_token_that_reads_nothing(acme: Product) -> None:
    user = AdminUser.objects.create_user("ann", is_staff=True)
    ProductMember.objects.create(product=acme, user=user, role=ProductMember.Role.MANAGER)
    values = {"product": acme.pk, "name": "n8n", "reads": "all", "may_use_mcp": "on"}
    page = logged_in(user).post(
        reverse("admin:readapi_apitoken_add"), {**values, "manages_hooks": "on"}
    )
    assert page.status_code == 302
    token = ApiToken.objects.get()
    assert (token.manages_hooks, token.reads, token.may_use_mcp) == (True, "nothing", False)


def test_hooks_take_few_statements(acme: Product, tool: Tool) -> None:
    for number in range(3):
        tool.add(target_url=f"{HOOK['target_url']}{number}")
    id = Subscription.objects.earliest("pk").pk

    numbers = [
        statements_by_database(act)["default"]
        for act in (
            tool.listed,
            lambda: tool.client.get("/v2/hooks/samples?event=score.crossed"),
            tool.add,
            lambda: tool.client.delete(f"/v2/hooks/{id}"),
        )
    ]
    assert numbers == [4, 3, 15, 10]


def test_secrets_of_hooks_are_in_no_log_page_trail_file_or_row(
    acme: Product,
    tool: Tool,
    receiver: Receiver,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    hook = tool.add(target_url=f"{receiver.url}/catch/planted").json()
    secrets = Secrets("catch/planted", hook["secret"], tool.token.secret)
    # One attempt fails, and one works.
    answers = iter((500, 200))
    receiver.answer = lambda _: next(answers)
    destination = Destination.objects.get()
    OutboxMessage.objects.create(
        product=acme, destination=destination, message_id="msg_1", title="x",
        payload={"type": "score.crossed"}, next_attempt_at=clock.now,
    )  # fmt: skip
    deliver(clock)
    clock.step(timedelta(days=1).total_seconds())
    deliver(clock)
    assert len(receiver.received) == 2
    refused = tool.add(target_url="http://127.0.0.1:1/catch/planted", parameters={"other": 1})
    assert refused.status_code == 400 and secrets.among(refused.content.decode()) == []
    assert secrets.among(str(tool.listed())) == []
    root = logged_in(AdminUser.objects.create_superuser("root"))
    subscription = Subscription.objects.get()
    pages = [
        reverse("admin:notifications_destination_changelist"),
        reverse("admin:notifications_destination_change", args=[destination.pk]),
        reverse("admin:notifications_destination_history", args=[destination.pk]),
        reverse("admin:notifications_subscription_changelist"),
        reverse("admin:notifications_subscription_change", args=[subscription.pk]),
        reverse("admin:readapi_apitoken_changelist"),
    ]
    assert secrets.on_pages(root, pages) == []
    printed_rows = [*Destination.objects.defer(None), *Subscription.objects.all()]
    assert secrets.in_files("notifications", caplog, capsys, printed_rows) == []
