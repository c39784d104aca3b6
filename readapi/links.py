"""Absolute addresses, on the host that the request came to."""

from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import get_script_prefix

from readapi.parameters import Parameters

# These say where a page begins, and so differ from page to page.
POSITION_PARAMETERS = ("cursor", "offset")


class LinkBuilder:
    """Where records and pages are found. Each address can be followed as it is."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request.build_absolute_uri()
        self._path = request.build_absolute_uri(request.path)
        # Once for the request: a page of 100 records asks for 100 addresses.
        self._root = request.build_absolute_uri(get_script_prefix()) + "v2"

    def workspace(self, workspace_id: int) -> str:
        return f"{self._root}/workspaces/{workspace_id}"

    def within(self, workspace_id: int, resource: str) -> str:
        """A list of a workspace: ``users``, ``accounts`` or ``segments``."""
        return f"{self._root}/{resource}?workspace_id={workspace_id}"

    def account(self, account_id: int, workspace_id: int) -> str:
        return f"{self._root}/accounts/{account_id}?workspace_id={workspace_id}"

    def user(self, user_id: int, workspace_id: int) -> str:
        return f"{self._root}/users/{user_id}?workspace_id={workspace_id}"

    def segment(self, segment_id: int, workspace_id: int) -> str:
        return f"{self._root}/segments/{segment_id}?workspace_id={workspace_id}"

    def members(self, segment_id: int, workspace_id: int) -> str:
        return f"{self._root}/segments/{segment_id}/members?workspace_id={workspace_id}"

    def page(self, parameters: Parameters, place: Parameters) -> str:
        """The requested list with all its parameters, at another place."""
        kept = {
            name: value for name, value in parameters.items() if name not in POSITION_PARAMETERS
        }
        query = urlencode({**kept, **place})
        return f"{self._path}?{query}" if query else self._path
