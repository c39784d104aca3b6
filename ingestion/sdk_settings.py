"""What SDKs load before they send: where to send to, and that nothing else is turned on.

Without it, Segment's SDKs for apps and pages send to Segment or send nothing, and RudderStack's
wait forever. No answer depends on the key, so none says whether a key exists. The fields are those
that the public sources of the SDKs read.
"""

from typing import Any

from django.core.exceptions import DisallowedHost
from rest_framework.request import Request
from rest_framework.response import Response

from ingestion.cors import CorsView
from ingestion.errors import IngestionError

CACHING = {"Cache-Control": "max-age=300"}
UNKNOWN_HOST = "The service does not know this host name. Add it to EDS_ALLOWED_HOSTS."


class SdkSettingsView(CorsView):
    """A configuration that SDKs load with GET."""

    http_method_names = ["get", "head", "options"]


class SegmentSettingsView(SdkSettingsView):
    """The settings of Segment's SDKs: analytics.js, Kotlin, Swift, React Native, Flutter, C#."""

    def get(self, request: Request, key: str) -> Response:
        # The addresses for data are beside this one.
        beginning = request.path_info.partition("/projects/")[0]
        settings = {
            "integrations": {
                "Segment.io": {
                    "apiKey": key,
                    # SDKs put https:// or the protocol before it.
                    "apiHost": _host(request) + beginning,
                    "protocol": request.scheme,
                }
            },
            "plan": {},
            # The SDKs report their own errors to Segment otherwise.
            "metrics": {"sampleRate": 0},
        }
        return Response(settings, headers=CACHING)


# RudderStack's SDKs send to the data plane that they were given. The older ones for Android and iOS
# need each of these fields.
SOURCE_CONFIG: dict[str, Any] = {
    "isHosted": True,
    "source": {
        "id": "engagement",
        "name": "engagement",
        "writeKey": "",
        "workspaceId": "engagement",
        "enabled": True,
        "updatedAt": "2026-01-01T00:00:00.000Z",
        "config": {
            "statsCollection": {"errors": {"enabled": False}, "metrics": {"enabled": False}}
        },
        "destinations": [],
    },
}


class SourceConfigView(SdkSettingsView):
    """The source configuration of RudderStack's SDKs for pages and apps."""

    def get(self, request: Request) -> Response:
        return Response(SOURCE_CONFIG, headers=CACHING)


def _host(request: Request) -> str:
    """The host and port that the SDK called."""
    try:
        return request.get_host()
    except DisallowedHost:
        raise IngestionError(400, "invalid_host", UNKNOWN_HOST) from None
