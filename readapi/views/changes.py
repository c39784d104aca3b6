"""What changed in the last week, or on the last day."""

from typing import Any

import msgspec
from rest_framework.response import Response

from readapi import parameters, queries
from readapi.errors import InvalidRequest, NotFound
from readapi.records import ChangesRecord
from readapi.views.base import ReadView
from trends.changes import texts, whose
from trends.changes.nights import changes_of
from trends.changes.results import Cadence


class ChangesDetail(ReadView):
    """What changed for the accounts of a workspace, or of one of its segments: alarms that began
    and ended, scores that moved, accounts that are new, stopped, or came back, moves between
    segments, and what is decided in the next 30 days. Each list has its count and the first of it.

    The period is the last complete seven UTC days, or the last one.
    """

    PARAMETERS = ("period", "segment_id")
    READS = ("account",)

    def build_response(self, workspace_id: int) -> Response:
        workspace = queries.workspace(self.product, workspace_id, with_counts=True)
        segment_id = parameters.id_number(self.parameters, "segment_id")
        segment = None if segment_id is None else queries.segment(workspace, segment_id)
        cadence = Cadence(parameters.choice(self.parameters, "period", [*Cadence]) or Cadence.WEEK)
        try:
            own = whose.of_workspace(workspace, segment)
        except whose.NoChanges as error:
            if segment is None:
                raise NotFound(str(error)) from None
            raise InvalidRequest("invalid_parameter", str(error), "segment_id") from None
        changes = changes_of(own, cadence)
        values: dict[str, Any] = {
            name: getattr(changes, name) for name in changes.__struct_fields__
        }
        record = ChangesRecord(text=texts.summary(changes), **values)
        return self.record_response(msgspec.to_builtins(record))
