"""Addresses of the pages of users and accounts."""

from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from engagement.metric_names import Scope

# The workspace whose scores a list or page shows.
WORKSPACE_PARAM = "workspace"
SEGMENT_PARAM = "segment"


def subject_url(subject: Any, scope: Scope, workspace_id: int | None = None) -> str:
    """The page of a user or account, opened in the workspace where one is given."""
    page = reverse(f"admin:engagement_{scope}_change", args=[subject.pk])
    return page if workspace_id is None else f"{page}?{urlencode({WORKSPACE_PARAM: workspace_id})}"


def subject_list_url(scope: Scope, workspace_id: int, segment_id: int | None = None) -> str:
    """The users or accounts ranked in the workspace; of a segment where one is given."""
    asked = {WORKSPACE_PARAM: workspace_id} | (
        {} if segment_id is None else {SEGMENT_PARAM: segment_id}
    )
    return f"{reverse(f'admin:engagement_{scope}_changelist')}?{urlencode(asked)}"
