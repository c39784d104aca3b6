"""Which models the trail follows, and which of their fields.

A field that is not named here never reaches the trail. So no secret does: a secret that was
replaced is a note of the page that replaced it.
"""

from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.models import User as AdminUser
from django.db.models import F, IntegerField, Model, Value

from access.trail.entries import Changes
from engagement.models import (
    EventName,
    EventWeight,
    Feature,
    Product,
    ProductLimits,
    ProductMember,
    Segment,
    Workspace,
)

# Values by field.
Snapshot = dict[str, Any]


class FollowedModel(NamedTuple):
    """``product`` leads from a row to its product; None if it has none. ``more`` reads values from
    other tables."""

    kind: str
    fields: tuple[str, ...]
    product: str | None = "product"
    more: Callable[[Any], Snapshot] | None = None


class RowState(NamedTuple):
    product_id: int | None
    values: Snapshot


_followed: dict[type[Model], FollowedModel] = {}


def follow(
    model: type[Model],
    kind: str,
    fields: Iterable[str],
    *,
    product: str | None = "product",
    more: Callable[[Any], Snapshot] | None = None,
) -> None:
    """Record changes of the model's rows in the admin. A field may be a path, such as
    ``owner__username``."""
    _followed[model] = FollowedModel(kind, tuple(fields), product, more)


def find_followed(model: type[Model]) -> FollowedModel | None:
    # A proxy is its table.
    return _followed.get(model._meta.concrete_model or model)


def followed_models() -> dict[type[Model], FollowedModel]:
    return dict(_followed)


def read_state(model: type[Model], pk: Any) -> RowState | None:
    """The row's followed values as they are stored, and its product."""
    followed = find_followed(model)
    if followed is None:
        return None
    product = Value(None, IntegerField()) if followed.product is None else F(followed.product)
    rows = model._base_manager.filter(pk=pk).annotate(of_product=product)
    values = rows.values(*followed.fields, "of_product").first()
    if values is None:
        return None
    product_id = values.pop("of_product")
    more = followed.more(pk) if followed.more else {}
    return RowState(product_id, {name: _plain(value) for name, value in (values | more).items()})


def compare(before: Snapshot, after: Snapshot) -> Changes:
    """The values that differ."""
    return {
        name: [before.get(name), after.get(name)]
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    }


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


# --- The domain's -----------------------------------------------------------------------------


def _members(product_id: int) -> Snapshot:
    members = ProductMember.objects.filter(product=product_id).select_related("user")
    return {
        f"member {member.user.get_username()}": member.get_role_display()
        + (", may manage connections" if member.may_manage_connections else "")
        + (", may work on accounts" if member.may_work_on_accounts else "")
        for member in members.order_by("user__username")
    }


def _product(product_id: int) -> Snapshot:
    limits = ProductLimits.objects.filter(pk=product_id).values().first()
    values = dict(limits or {}).items()
    own = {f"limit of {name}": value for name, value in values if name != "product_id"}
    return {**own, **_members(product_id)}


def _weights(workspace_id: int) -> Snapshot:
    weights = EventWeight.objects.filter(workspace=workspace_id).order_by("event_name__name")
    pairs = weights.values_list("event_name__name", "weight")
    return {f"weight of {name}": weight for name, weight in pairs}


def _events(feature_id: int) -> Snapshot:
    feature = Feature.objects.get(pk=feature_id)
    events = EventName.objects.filter(product=feature.product_id, feature=feature)
    return {"events": ", ".join(events.values_list("name", flat=True))}


def follow_domain() -> None:
    follow(Product, "product", ("name", "history_traits"), product="pk", more=_product)
    follow(
        Workspace,
        "workspace",
        ("name", "lookback_days", "half_life_days", "default_weight", "audience", "outcomes"),
        more=_weights,
    )
    follow(
        Segment,
        "segment",
        ("name", "scope", "match", "conditions"),
        product="workspace__product",
    )
    follow(Feature, "feature", ("name",), more=_events)
    follow(
        AdminUser,
        "login",
        ("username", "email", "first_name", "last_name", "is_active", "is_staff", "is_superuser"),
        product=None,
    )
