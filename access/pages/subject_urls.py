"""URLs of the pages of users and accounts."""

from functools import cache
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from engagement.metric_names import Scope

# Names the workspace whose scores a list or page shows.
WORKSPACE_PARAM = "workspace"
SEGMENT_PARAM = "segment"


def subject_url(subject: Any, scope: Scope, workspace_id: int | None = None) -> str:
    """The URL of a user's or account's page, for the scores of the workspace if one is given."""
    start, end = _around_id(scope)
    page = f"{start}{subject.pk}{end}"
    return page if workspace_id is None else f"{page}?{WORKSPACE_PARAM}={workspace_id}"


@cache
def _around_id(scope: Scope) -> tuple[str, str]:
    """The parts of a page's URL around the id. A list has many URLs, and to reverse one is slow."""
    start, _, end = reverse(f"admin:engagement_{scope}_change", args=[0]).rpartition("0")
    return start, end


def subject_list_url(scope: Scope, workspace_id: int, segment_id: int | None = None) -> str:
    """The URL of the workspace's ranking of users or accounts, or of a segment's members in it."""
    query = {WORKSPACE_PARAM: workspace_id}
    if segment_id is not None:
        query[SEGMENT_PARAM] = segment_id
    return f"{reverse(f'admin:engagement_{scope}_changelist')}?{urlencode(query)}"


def trait_values_url(workspace_id: int) -> str:
    """The URL of the values of traits that the workspace's forms suggest."""
    query = urlencode({WORKSPACE_PARAM: workspace_id})
    return f"{reverse('admin:engagement_segment_values')}?{query}"
