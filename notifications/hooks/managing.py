"""Hooks: webhooks that tools of automation, such as Zapier and n8n, add and remove themselves.

A hook is a destination that is active from the start, because these tools confirm no test, with one
subscription.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from secrets import token_hex
from typing import Any, Literal, TypeAlias

import msgspec
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet

from access.trail import entries
from core.outbound.addresses import AddressForbidden, Resolver, find_target
from engagement.insight_kinds import INSIGHTS
from engagement.models import Product, Segment, Workspace
from notifications.delivery import signing
from notifications.hooks import samples
from notifications.models import Destination, Subscription
from notifications.models.destinations import address_hint
from notifications.triggers import TRIGGERS, Trigger, TriggerInfo
from notifications.watching.conditions import has_source
from notifications.watching.watches import assign_watch

MAX_HOOKS = 100
_KIND = "hook"
Json: TypeAlias = dict[str, Any]


class HookParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What narrows the event. Which of them it has depends on the event."""

    scope: Literal["account", "user"] | None = None
    segment_id: int | None = None
    filter_segment_id: int | None = None
    insight: str = ""
    threshold: float | None = None
    direction: Literal["up", "down"] | None = None
    quiet_hours: int = 24
    traits: list[str] = []


class HookBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to send which messages."""

    target_url: str
    event: str
    workspace_id: int | None = None
    parameters: HookParameters = HookParameters()


def events() -> dict[str, Trigger]:
    """What a hook can be about, by the type of its messages."""
    return {
        info.type: trigger
        for trigger, info in TRIGGERS.items()
        if not info.is_about_product or has_source(trigger)
    }


def subscribe(
    product: Product,
    body: HookBody,
    workspace_ids: Collection[int] | None,
    site_url: str,
    actor: entries.Actor,
    now: datetime,
    resolve: Resolver | None = None,
) -> Json:
    """Add a hook, or find the same one. Returns it with its signing secret. Raises
    ValidationError."""
    subscription = _subscription(product, body, workspace_ids)
    try:
        find_target(body.target_url, resolve)
    except AddressForbidden as error:
        raise ValidationError({"target_url": str(error)}) from None
    except OSError:
        raise ValidationError({"target_url": "The host of target_url has no address."}) from None
    with transaction.atomic():
        # One after the other, so that a product has no more than it may.
        Product.objects.select_for_update(no_key=True).get(pk=product.pk)
        for row in _hooks(product.pk).defer(None):
            if row.destination.address == body.target_url and _same(row, subscription):
                return _record(row) | {"secret": row.destination.signing_secrets}
        if _hooks(product.pk).count() >= MAX_HOOKS:
            text = f"A product can have at most {MAX_HOOKS} hooks. Remove one that nobody needs."
            raise ValidationError({"target_url": text})
        subscription.destination = Destination.objects.create(
            product=product,
            kind=Destination.Kind.WEBHOOK,
            name=f"Hook {token_hex(4)}: {body.event}",
            address=body.target_url,
            address_hint=address_hint(Destination.Kind.WEBHOOK, body.target_url),
            signing_secrets=signing.generate_secret(),
            state=Destination.State.ACTIVE,
            verified_at=now,
            is_hook=True,
            site_url=site_url,
        )
        subscription.save()
        assign_watch(subscription)
        _note(entries.Action.ADDED, actor, subscription)
    return _record(subscription) | {"secret": subscription.destination.signing_secrets}


def unsubscribe(product_id: int, id: int, actor: entries.Actor) -> None:
    """Remove the hook if there is one."""
    with transaction.atomic():
        for subscription in _hooks(product_id).filter(pk=id):
            _note(entries.Action.DELETED, actor, subscription)
            subscription.destination.delete()


def list_hooks(product_id: int, target_url: str = "") -> list[Json]:
    """The hooks of the product, by API only; with *target_url*, those that lead there."""
    rows = _hooks(product_id)
    if target_url:
        # Addresses are encrypted, each with a key of its own.
        return [_record(row) for row in rows.defer(None) if row.destination.address == target_url]
    return [_record(row) for row in rows]


def sample_messages(event: str) -> list[Json]:
    """Made-up messages of the event, with the ids by which tools tell them apart. Raises
    ValidationError."""
    _trigger(event)
    made_up = samples.examples(event).values()
    return [message | {"id": f"msg_sample{number}"} for number, message in enumerate(made_up)]


def _hooks(product_id: int) -> "QuerySet[Subscription]":
    rows = Subscription.objects.filter(product=product_id, destination__is_hook=True)
    return rows.select_related("destination").defer(
        "destination__address", "destination__signing_secrets"
    )


def _note(action: entries.Action, actor: entries.Actor, row: Subscription) -> None:
    entries.record(
        actor,
        action,
        _KIND,
        product_id=row.product_id,
        object_id=row.pk,
        name=TRIGGERS[Trigger(row.trigger)].type,
        note=f"To {row.destination.address_hint}.",
    )


def _record(row: Subscription) -> Json:
    parameters = {
        "scope": row.scope,
        "segment_id": row.segment_id,
        "filter_segment_id": row.filter_segment_id,
        "insight": row.insight,
        "threshold": row.threshold,
        "direction": row.direction,
        "quiet_hours": row.quiet_hours,
        "traits": row.traits,
    }
    return {
        "id": row.pk,
        "event": TRIGGERS[Trigger(row.trigger)].type,
        "workspace_id": row.workspace_id,
        # The whole URL is a secret of the tool.
        "target": row.destination.address_hint,
        "parameters": {name: value for name, value in parameters.items() if value},
    }


def _same(row: Subscription, other: Subscription) -> bool:
    own = (row.trigger, row.workspace_id, _values(row))
    return own == (other.trigger, other.workspace_id, _values(other))


def _values(row: Subscription) -> Sequence[Any]:
    names = "scope segment_id filter_segment_id insight threshold direction quiet_hours traits"
    return [getattr(row, name) for name in names.split()]


# --- What a request asks for ----------------------------------------------------------------


def _trigger(event: str) -> Trigger:
    by_type = events()
    if event not in by_type:
        raise ValidationError({"event": f"event accepts: {', '.join(sorted(by_type))}."})
    return by_type[event]


def _subscription(
    product: Product, body: HookBody, workspace_ids: Collection[int] | None
) -> Subscription:
    """The unsaved subscription. Raises ValidationError."""
    trigger, parameters = _trigger(body.event), body.parameters
    info = TRIGGERS[trigger]
    _require_known(body.event, info, parameters)
    workspace = _workspace(product, body.workspace_id, info, workspace_ids)
    scope = parameters.scope or "account"
    row = Subscription(
        product=product,
        workspace=workspace,
        trigger=trigger,
        scope=scope if "scope" in info.parameters else "",
        segment=_segment(workspace, parameters.segment_id, "segment_id"),
        filter_segment=_segment(workspace, parameters.filter_segment_id, "filter_segment_id"),
        insight=parameters.insight,
        threshold=_threshold(info, parameters.threshold),
        direction=(parameters.direction or "down") if "direction" in info.parameters else "",
        quiet_hours=parameters.quiet_hours,
        traits=parameters.traits,
    )
    if "segment" in info.parameters and row.segment is None:
        raise ValidationError({"segment_id": "segment_id is required for this event."})
    if "insight" in info.parameters and parameters.insight not in INSIGHTS:
        raise ValidationError({"insight": f"insight accepts: {', '.join(INSIGHTS)}."})
    for field in ("quiet_hours", "traits"):
        try:
            Subscription._meta.get_field(field).clean(getattr(row, field), row)  # type: ignore[union-attr]
        except ValidationError:
            raise ValidationError({field: f"{field} has a value that is not accepted."}) from None
    return row


def _require_known(event: str, info: TriggerInfo, parameters: HookParameters) -> None:
    names = {f"{name}_id" if name.endswith("segment") else name for name in info.parameters}
    for name in msgspec.to_builtins(parameters):
        if name not in names | {"quiet_hours"}:
            raise ValidationError({name: f"{event} has no parameter {name}."})


def _workspace(
    product: Product, id: int | None, info: TriggerInfo, allowed: Collection[int] | None
) -> Workspace | None:
    if info.is_about_product:
        if allowed is not None:
            text = "This event is about the whole product, and the token is for some workspaces."
            raise ValidationError({"event": text})
        return None
    rows = Workspace.objects.filter(product=product, pk=id or 0)
    row = rows.first() if allowed is None or id in allowed else None
    if row is None:
        text = "workspace_id must be a workspace that the token may use."
        raise ValidationError({"workspace_id": text})
    return row


def _segment(workspace: Workspace | None, id: int | None, field: str) -> Segment | None:
    if id is None:
        return None
    row = Segment.objects.filter(workspace=workspace, pk=id).first()
    if row is None:
        raise ValidationError({field: f"{field} must be a segment of the workspace."})
    return row


def _threshold(info: TriggerInfo, value: float | None) -> float | None:
    if "threshold" not in info.parameters:
        return None
    value, (low, high) = info.default if value is None else value, info.bounds
    if value is None or not low <= value <= high or (info.is_whole and value % 1):
        number = "a whole number" if info.is_whole else "a number"
        text = f"threshold must be {number} from {low:g} to {high:,g}."
        raise ValidationError({"threshold": text})
    return value
