"""What is to be sent of a subject: what differs from what was sent, or from what the record has."""

from collections.abc import Mapping
from typing import Any

from destinations.models import RecordDestination, Rule
from destinations.records import TRACKING_ID, Pair, Value, pairs
from destinations.vendors.base import (
    Field,
    NotAllowed,
    fitting,
    is_same,
    stored_fields,
    whole_points,
)


class Comparison:
    """Compares by the destination's mapping. ``pairs`` include that of our own id."""

    def __init__(self, destination: RecordDestination) -> None:
        self._fields = stored_fields(destination)
        self.pairs = pairs(destination.mapping)
        if destination.id_field:
            self.pairs.append(Pair(TRACKING_ID, destination.id_field))
        self._points = destination.points
        self._vendor = destination.get_vendor_display()

    def is_known(self, last_sent: Mapping[str, Value]) -> bool:
        """Whether it is known of each field what the record has."""
        return all(pair.field in last_sent for pair in self.pairs)

    def differences(
        self,
        values: Mapping[str, Value],
        last_sent: Mapping[str, Value],
        theirs: Mapping[str, Any] | None,
    ) -> dict[str, Value]:
        """What is to be sent: all that differs, if anything but a small move of a score does.

        *theirs* are the record's values if they were just read; then even a small move counts.
        """
        moved: dict[str, Value] = {}
        small: dict[str, Value] = {}
        for pair in self.pairs:
            ours = values[pair.field]
            is_cleared = pair.rule == Rule.CLEAR and self.field(pair.field).can_be_cleared
            if ours is None and not is_cleared:
                continue
            if theirs is not None:
                if self._differs(pair, ours, theirs.get(pair.field)):
                    moved[pair.field] = ours
            elif pair.rule != Rule.FILL and ours != (before := last_sent.get(pair.field)):
                (small if self._is_small(pair, before, ours) else moved)[pair.field] = ours
        return moved and {**moved, **small}

    def _differs(self, pair: Pair, ours: Value, theirs: Any) -> bool:
        is_filled = pair.rule == Rule.FILL and theirs not in (None, "")
        return not is_filled and not is_same(self.field(pair.field), self._wire(pair, ours), theirs)

    def _is_small(self, pair: Pair, before: Value, ours: Value) -> bool:
        if not pair.is_score or before is None or ours is None:
            return False
        assert isinstance(before, int | float) and isinstance(ours, int | float), "scores"
        return round(abs(ours - before), 1) < self._points

    def wired(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values as they are sent: of scores, whole points."""
        by_field = {pair.field: pair for pair in self.pairs}
        return {name: self._wire(by_field[name], value) for name, value in values.items()}

    def _wire(self, pair: Pair, value: Value) -> Value:
        if pair.is_score and self._points >= 1 and isinstance(value, int | float):
            value = whole_points(value)
        return fitting(self.field(pair.field), value)

    def field(self, name: str) -> Field:
        """The vendor's field. Raises NotAllowed if it had none when it was last asked."""
        if name not in self._fields:
            raise NotAllowed(f"{self._vendor} has no field {name} any more. Edit the mapping.")
        return self._fields[name]

    def has_others(self, values: Mapping[str, Value], theirs: Mapping[str, Any] | None) -> bool:
        """Whether the record has other values than these, or none were read."""
        return theirs is None or any(
            not is_same(self.field(name), value, theirs.get(name)) for name, value in values.items()
        )

    def cleared(self) -> dict[str, Value]:
        """What the record of somebody who is forgotten gets: nothing in each field that is ours."""
        names = [pair.field for pair in self.pairs if pair.rule != Rule.FILL]
        fields = [each for name in names if (each := self._fields.get(name))]
        return self.wired({each.name: None for each in fields if each.can_be_cleared})
