"""How a workspace moved: its figures by day, week, or month."""

from collections.abc import Sequence
from typing import Any, cast

from rest_framework.response import Response

from engagement.scores.active_days import DAY
from readapi import pagination, parameters, queries
from readapi.errors import InvalidRequest
from readapi.pagination import Order
from readapi.records import TrendPoint
from readapi.views.base import ReadView
from trends import reading
from trends.models import WHOLE
from trends.reading import Interval, Point

DEFAULT_DAYS = 90


class _PointOrder(Order):
    """Points that are computed, the earliest first."""

    def sort(self, rows: Any, *, backwards: bool = False) -> Any:
        return rows[::-1] if backwards else rows

    def rows_after(self, rows: Any, position: tuple[int, ...], *, backwards: bool) -> Any:
        (day,) = position
        if backwards:
            return [row for row in rows if row.last.toordinal() < day]
        return [row for row in rows if row.last.toordinal() > day]

    def position(self, row: Any) -> tuple[int, ...]:
        point: Point = row
        return (point.last.toordinal(),)


_ORDER = _PointOrder(("last",))


class TrendList(ReadView):
    """The figures of a workspace, or of a segment of it, by day, week, or month, the earliest
    first: active accounts and users, scores, accounts that are new, returned, or stopped, licensed
    seats in use, and of a segment who entered and left.

    Figures are those of complete UTC days, and are computed in the night after. Late data changes
    those of past days, but not those of segments. They name nobody.
    """

    PARAMETERS = ("from", "to", "interval", "segment_id", *parameters.PAGING_PARAMETERS)
    READS = ()

    def build_response(self, workspace_id: int) -> Response:
        workspace = queries.workspace(self.product, workspace_id)
        segment_id = parameters.id_number(self.parameters, "segment_id")
        if segment_id is not None:
            queries.segment(workspace, segment_id)
        interval = Interval(parameters.choice(self.parameters, "interval", [*Interval]) or "day")
        first, last = (parameters.day(self.parameters, name) for name in ("from", "to"))
        request = pagination.parse_page_request(
            self.parameters, f"workspaces/{workspace_id}/trends", _ORDER
        )
        last_known = reading.last_day(workspace)
        points: Sequence[Point] = ()
        if last_known is not None:
            last = min(last or last_known, last_known)
            first = first or last - (DEFAULT_DAYS - 1) * DAY
            if last - first >= reading.KEPT:
                raise InvalidRequest(
                    "invalid_parameter",
                    f"from and to must be at most {reading.KEPT.days} days apart.",
                    "from",
                )
            rows = reading.read(workspace, segment_id or WHOLE, (first, last))
            points = reading.points(rows, first, last, interval)
        page = pagination.paginate(cast(Any, points), _ORDER, request)
        return self.page_response(page, [_record(point) for point in cast(Any, page.rows)])


def _record(point: Point) -> TrendPoint:
    days = {"first_day": point.first.isoformat(), "last_day": point.last.isoformat()}
    return cast(TrendPoint, {**days, **point.figures})
