"""Made-up messages: for the description of the API, and for who builds on hooks."""

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from notifications import messages
from notifications.messages import NamedThing, NotifiedSubject
from notifications.triggers import TRIGGERS

Json: TypeAlias = dict[str, Any]

_TIME = "2026-09-24T12:04:00Z"
_ID = "msg_2f6d0c0e5b8a4f0e9c1d7a3b5e8f2c4d"
_ACCOUNT = NotifiedSubject(
    id=31,
    tracking_id="initech",
    external_id="initech",
    name="Initech",
    link="https://eds.example.com/admin/engagement/account/31/change/?workspace=1",
    traits={"plan": "pro", "region": None},
)
_SCORES_BEFORE = {"score_last_period": 61.2}
_SCORES_AFTER: Any = {"score": 34.8, "score_change": -26.4}
# What the fields of the messages may hold.
_VALUES: Json = {
    "text": "Initech: an example.",
    "subscription_id": 7,
    "product": NamedThing(id=1, name="Board Lens"),
    "workspace": NamedThing(id=1, name="Default"),
    "segment": NamedThing(id=12, name="Ice Cold"),
    "insight": "trend_down",
    "threshold": 50.0,
    "direction": "down",
    "account": _ACCOUNT,
    "count": 1,
    "first": [_ACCOUNT],
    "link": "https://eds.example.com/admin/engagement/product/1/change/",
    "reason": "The marketplace rejected the token.",
    "error": "The marketplace did not answer.",
    "expires_on": "2026-10-01",
    "kind": "read token",
    "name": "CRM",
    "dropped": 12,
    "refused": 12,
    "messages": 80,
    "percent": 15.0,
    "minutes": 6,
    "day": "2026-09-23",
    "observed": 9870,
    "expected": 13610.4,
    "usual": 640.0,
    "event": "renewed",
    "license": "E-7QK-2ZD-9MA-4WX",
    "date": "2026-09-10",
}
_BEFORE_AND_AFTER: dict[type[Struct], tuple[Struct, Struct]] = {
    messages.SegmentChanged: (
        messages.SegmentBefore(in_segment=False, **_SCORES_BEFORE),
        messages.SegmentAfter(in_segment=True, **_SCORES_AFTER),
    ),
    messages.InsightChanged: (
        messages.InsightBefore(has_insight=False, **_SCORES_BEFORE),
        messages.InsightAfter(has_insight=True, **_SCORES_AFTER),
    ),
}
_SCORES = messages.ScoreBefore(**_SCORES_BEFORE), messages.ScoreAfter(**_SCORES_AFTER)


def examples(type: str) -> Json:
    """Made-up messages of the type, by what they say."""
    data_type = messages.types_by_name()[type]
    if not issubclass(data_type, messages.ProductMessage):
        return {"message": _example(type, data_type)}
    own_names = set(data_type.__struct_fields__) - set(messages.ProductMessage.__struct_fields__)
    ended = _example(type, data_type, without=own_names, holds=False)
    holding = {"holds": _example(type, data_type, holds=True)}
    ends = any(info.type == type and info.ends for info in TRIGGERS.values())
    return holding | ({"ended": ended} if ends else {})


def _example(
    type: str, data_type: type[Struct], without: set[str] | None = None, **more: Any
) -> Json:
    before, after = _BEFORE_AND_AFTER.get(data_type, _SCORES)
    values = _VALUES | {"before": before, "after": after} | more
    names = [name for name in data_type.__struct_fields__ if name in values]
    data = data_type(**{name: values[name] for name in names if name not in (without or ())})
    return {"id": _ID, "type": type, "timestamp": _TIME, "data": msgspec.to_builtins(data)}
