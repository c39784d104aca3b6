"""Who of those first seen in a week is active in the weeks after."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from rest_framework.response import Response

from engagement.metric_names import Scope
from engagement.models import EventName
from readapi import pagination, parameters, queries, rights
from readapi.errors import InvalidRequest
from readapi.pagination import ComputedOrder
from readapi.records import CohortRecord
from readapi.views.base import ReadView
from trends.cohorts import storage
from trends.cohorts.results import WEEKS, Cohorts

SUBJECTS: Final = ("account", "user")


class CohortList(ReadView):
    """Of the accounts that were first seen in a week, how many were active in each week after,
    the latest week first; with `event`, how many did it; with `by`, for each value of a trait.

    Cohorts are computed each night: those of accounts and of users always, others for a month
    after somebody had them computed on the page of the workspace. Others have no records.
    """

    PARAMETERS = ("subjects", "event", "by", *parameters.PAGING_PARAMETERS)
    READS = ()

    def build_response(self, workspace_id: int) -> Response:
        name = parameters.choice(self.parameters, "subjects", SUBJECTS)
        scope: Scope = "user" if name == "user" else "account"
        rights.require_kinds(self.token, (scope,))
        trait = parameters.text(self.parameters, "by") or ""
        if trait and scope == "user":
            rights.require_user_traits(self.token)
        event_name = parameters.text(self.parameters, "event")
        list_name = f"workspaces/{workspace_id}/cohorts/{scope}/{event_name}/{trait}"
        request = pagination.parse_page_request(self.parameters, list_name, _ORDER)
        workspace = queries.workspace(self.product, workspace_id)
        event = None
        if event_name and (event := self._event(event_name)) is None:
            message = "event must be the name of an event of the product."
            raise InvalidRequest("invalid_parameter", message, "event")
        question = storage.find(workspace, scope, event, trait)
        cohorts = storage.decode(question) if question else None
        records: Any = list(enumerate(_records(cohorts))) if cohorts else []
        page = pagination.paginate(records, _ORDER, request)
        return self.page_response(page, [record for _, record in page.rows])

    def _event(self, name: str) -> EventName | None:
        return EventName.objects.filter(product=self.product, name=name).first()


# By their place: they are computed once a night.
_ORDER = ComputedOrder(("place",), place=lambda row: row[:1])


def _records(cohorts: Cohorts) -> Iterator[CohortRecord]:
    for group in cohorts.groups:
        for cohort in reversed(range(WEEKS)):
            yield {
                "week": cohorts.week(cohort).isoformat(),
                "group": group.label,
                "value": group.value,
                "first_seen": group.sizes[cohort],
                "weeks": [
                    {
                        "active": active,
                        "share": msgspec.to_builtins(cohorts.share(group, cohort, later)),
                        "is_complete": cohorts.is_complete(cohort + later),
                    }
                    for later, active in enumerate(group.active[cohort])
                ],
                "through": cohorts.through.isoformat(),
            }
