"""Absolute URLs on the host that received the request."""

from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import get_script_prefix

from readapi.parameters import REPEATED_PARAMETERS, SEPARATOR, Parameters

# They say where a page begins, so each page has its own.
POSITION_PARAMETERS = ("cursor", "offset")


class LinkBuilder:
    """The URLs of records and pages. A client can follow each as is."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request.build_absolute_uri()
        self._path = request.build_absolute_uri(request.path)
        # Built once: a page of 100 records needs 100 URLs.
        self._root = request.build_absolute_uri(get_script_prefix()) + "v2"

    def workspace(self, workspace_id: int) -> str:
        return f"{self._root}/workspaces/{workspace_id}"

    def workspace_list(self, workspace_id: int, resource: str) -> str:
        """A list of a workspace: ``users``, ``accounts``, or ``segments``."""
        return f"{self._root}/{resource}?workspace_id={workspace_id}"

    def account(self, account_id: int, workspace_id: int) -> str:
        return f"{self._root}/accounts/{account_id}?workspace_id={workspace_id}"

    def user(self, user_id: int, workspace_id: int) -> str:
        return f"{self._root}/users/{user_id}?workspace_id={workspace_id}"

    def segment(self, segment_id: int, workspace_id: int) -> str:
        return f"{self._root}/segments/{segment_id}?workspace_id={workspace_id}"

    def members(self, segment_id: int, workspace_id: int) -> str:
        return f"{self._root}/segments/{segment_id}/members?workspace_id={workspace_id}"

    def page(self, parameters: Parameters, position: Parameters) -> str:
        """The requested list with the same parameters, at another position."""
        parameter_values = {
            name: value.split(SEPARATOR) if name in REPEATED_PARAMETERS else value
            for name, value in parameters.items()
            if name not in POSITION_PARAMETERS
        }
        query = urlencode({**parameter_values, **position}, doseq=True)
        return f"{self._path}?{query}" if query else self._path
