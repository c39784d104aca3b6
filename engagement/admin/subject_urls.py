"""URLs of the pages of users and accounts."""

from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from engagement.metric_names import Scope

# Names the workspace whose scores a list or page shows.
WORKSPACE_PARAM = "workspace"
SEGMENT_PARAM = "segment"


def subject_url(subject: Any, scope: Scope, workspace_id: int | None = None) -> str:
    """The URL of a user's or account's page, for the scores of the workspace if one is given."""
    page = reverse(f"admin:engagement_{scope}_change", args=[subject.pk])
    return page if workspace_id is None else f"{page}?{urlencode({WORKSPACE_PARAM: workspace_id})}"


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
