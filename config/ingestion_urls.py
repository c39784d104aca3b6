"""The URLs of data and of health checks, which ingestion processes serve."""

from collections.abc import Callable

from django.http.response import HttpResponseBase
from django.urls import path, re_path

from config.operations import health
from config.validation_readers import product_of_reader
from ingestion import browser_sdk, sdk_settings
from ingestion.doors import Door, segment, v1, v2
from ingestion.doors.bodies import MAX_BATCH_BODY_BYTES as BATCH_BYTES
from ingestion.views import (
    BatchView,
    IngestionView,
    SegmentSdkView,
    SegmentWebhookView,
    ValidationView,
)
from readapi.views import UnknownPathView

# A request to an unknown path gets one of these as a suggestion.
API_PATHS = [
    *("/v2/identify", "/v2/group", "/v2/track", "/v2/batch", "/v2/validate"),
    *("/v2/workspaces", "/v2/accounts", "/v2/users", "/v2/segments"),
    *("/v1/users", "/v1/groups", "/v1/events", "/v1/accounts"),
    *("/segment", "/segment/v1/batch", "/segment/v1/import", "/segment/v1/identify"),
    *("/segment/v1/group", "/segment/v1/track", "/segment/v1/page", "/segment/v1/screen"),
]
# By the nearest path. Version 1 calls its endpoints after what they store.
SUGGESTIONS = {**{path: path for path in API_PATHS}, "/v2/events": "/v2/track"}


def validation_view(door: Door, **options: int) -> Callable[..., HttpResponseBase]:
    return ValidationView.as_view(door=door, find_reader=product_of_reader, **options)


DOORS = [
    re_path(r"^v2/identify/?$", IngestionView.as_view(door=v2.identify), name="v2_identify"),
    re_path(r"^v2/group/?$", IngestionView.as_view(door=v2.group), name="v2_group"),
    re_path(r"^v2/track/?$", IngestionView.as_view(door=v2.track), name="v2_track"),
    re_path(
        r"^v2/batch/?$",
        BatchView.as_view(door=v2.batch, max_body_bytes=BATCH_BYTES),
        name="v2_batch",
    ),
    re_path(r"^v2/validate/?$", validation_view(v2.typed), name="v2_validate"),
    re_path(r"^v2/validate/identify/?$", validation_view(v2.identify), name="v2_validate_identify"),
    re_path(r"^v2/validate/group/?$", validation_view(v2.group), name="v2_validate_group"),
    re_path(r"^v2/validate/track/?$", validation_view(v2.track), name="v2_validate_track"),
    re_path(
        r"^v2/validate/batch/?$",
        validation_view(v2.batch, max_body_bytes=BATCH_BYTES, accepted_status=200),
        name="v2_validate_batch",
    ),
    re_path(r"^v1/users/?$", IngestionView.as_view(door=v1.user), name="v1_users"),
    re_path(r"^v1/groups/?$", IngestionView.as_view(door=v1.group), name="v1_groups"),
    re_path(r"^v1/events/?$", IngestionView.as_view(door=v1.event), name="v1_events"),
    re_path(
        r"^segment/?$", SegmentWebhookView.as_view(door=segment.webhook), name="segment_webhook"
    ),
    # Some SDKs drop the prefix of the URL that they are given. Beacons have their own.
    re_path(
        r"^(?:segment/)?(?:beacon/)?v1/(?:batch|import|b)/?$",
        SegmentSdkView.as_view(door=segment.batch, max_body_bytes=BATCH_BYTES),
        name="segment_batch",
    ),
    re_path(
        r"^(?:segment/)?v1/(?:identify|i)/?$",
        SegmentSdkView.as_view(door=segment.identify),
        name="segment_identify",
    ),
    re_path(
        r"^(?:segment/)?v1/(?:group|g)/?$",
        SegmentSdkView.as_view(door=segment.group),
        name="segment_group",
    ),
    re_path(
        r"^(?:segment/)?v1/(?:track|t)/?$",
        SegmentSdkView.as_view(door=segment.track),
        name="segment_track",
    ),
    re_path(
        r"^(?:segment/)?v1/(?:page|p)/?$",
        SegmentSdkView.as_view(door=segment.page),
        name="segment_page",
    ),
    re_path(
        r"^(?:segment/)?v1/(?:screen|s)/?$",
        SegmentSdkView.as_view(door=segment.screen),
        name="segment_screen",
    ),
    re_path(
        r"^(?:segment/)?v1/(?:alias|a)/?$",
        SegmentSdkView.as_view(door=segment.alias),
        name="segment_alias",
    ),
    re_path(
        r"^(?:segment/)?v1/projects/(?P<key>[^/]+)/settings/?$",
        sdk_settings.SegmentSettingsView.as_view(),
        name="segment_settings",
    ),
    re_path(
        r"^(?:segment/)?sourceConfig/?$",
        sdk_settings.SourceConfigView.as_view(),
        name="source_config",
    ),
    re_path(
        r"^(?:segment/)?analytics\.js/v1/(?P<key>[^/]+)/(?:platform/)?analytics\.min\.js$",
        browser_sdk.sdk,
        name="browser_sdk",
    ),
    re_path(
        r"^(?:segment/)?analytics-next/bundles/(?P<name>[\w.-]+\.js)$",
        browser_sdk.chunk,
        name="browser_sdk_chunk",
    ),
]

# It matches every other path under these prefixes.
UNKNOWN_PATHS = [
    re_path(
        r"^(?:v\d+|segment|beacon|identify|group|track|page|screen|batch|import)(?:/|$)",
        UnknownPathView.as_view(suggestions=SUGGESTIONS),
        name="unknown_path",
    ),
]
HEALTH_CHECKS = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
handler400 = "config.web.error_pages.bad_request"
handler404 = "config.web.error_pages.not_found"
handler500 = "config.web.error_pages.server_error"
urlpatterns = [*DOORS, *UNKNOWN_PATHS, *HEALTH_CHECKS]
