"""The operations of the settings that SDKs load before they send."""

from config.openapi.pieces import Json, error_response, json_response
from ingestion.sdk_settings import (
    SOURCE_CONFIG,
    UNKNOWN_HOST,
    SdkSettingsView,
    SegmentSettingsView,
    SourceConfigView,
)

_SETTINGS: Json = {
    "integrations": {
        "Segment.io": {
            "apiKey": "edk_…",
            "apiHost": "eds.example.com/segment/v1",
            "protocol": "https",
        }
    },
    "plan": {},
    "metrics": {"sampleRate": 0},
}


def _settings(id: str, summary: str, example: Json, *parameters: Json, **errors: Json) -> Json:
    return {
        "operationId": id,
        "summary": summary,
        "description": "Needs no key, and is the same for every key.",
        "tags": ["Segment-compatible"],
        "security": [],
        "parameters": [*parameters],
        "responses": {
            "200": json_response({"type": "object"}, "The settings.", {id: example}),
            **errors,
        },
    }


SETTINGS_OPERATIONS: dict[type[SdkSettingsView], Json] = {
    SegmentSettingsView: _settings(
        "trackingSettings",
        "Load the settings of Segment's SDKs",
        _SETTINGS,
        {
            "in": "path",
            "name": "key",
            "required": True,
            "schema": {"type": "string", "pattern": "^[^/]+$"},
            "description": "An ingestion key.",
        },
        **{
            "400": error_response(
                "`invalid_host`: the service does not answer to this host name.",
                "invalid_host",
                UNKNOWN_HOST,
            )
        },
    ),
    SourceConfigView: _settings(
        "rudderstackSourceConfig",
        "Load the settings of RudderStack's SDKs",
        SOURCE_CONFIG,
        **{
            "405": error_response(
                "`method_not_allowed`: use GET.",
                "method_not_allowed",
                "This endpoint does not support the method. Use GET.",
            )
        },
    ),
}
