"""All URLs of the service."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import path, re_path
from django.views.generic import RedirectView

from config import error_pages, guides, health, mcp_health, static_files
from config.openapi import pages
from engagement.admin.invited import invite_view
from ingestion import browser_sdk, sdk_settings
from ingestion.doors import segment, v1, v2
from ingestion.doors.bodies import MAX_BATCH_BODY_BYTES as BATCH_BYTES
from ingestion.views import (
    BatchView,
    IngestionView,
    SegmentSdkView,
    SegmentWebhookView,
    ValidationView,
)
from notifications.views import ConfirmEmailView
from readapi import views as readapi
from readapi.mcp.views import McpView

handler400 = "config.error_pages.bad_request"

# A request to an unknown path gets the nearest of these as a suggestion.
API_PATHS = [
    *("/v2/identify", "/v2/group", "/v2/track", "/v2/batch", "/v2/validate"),
    *("/v2/workspaces", "/v2/accounts", "/v2/users", "/v2/segments"),
    *("/v1/users", "/v1/groups", "/v1/events", "/v1/accounts"),
    *("/segment", "/segment/v1/batch", "/segment/v1/import", "/segment/v1/identify"),
    *("/segment/v1/group", "/segment/v1/track", "/segment/v1/page", "/segment/v1/screen"),
]

urlpatterns = [
    re_path(r"^v2/identify/?$", IngestionView.as_view(door=v2.identify), name="v2_identify"),
    re_path(r"^v2/group/?$", IngestionView.as_view(door=v2.group), name="v2_group"),
    re_path(r"^v2/track/?$", IngestionView.as_view(door=v2.track), name="v2_track"),
    re_path(
        r"^v2/batch/?$",
        BatchView.as_view(door=v2.batch, max_body_bytes=BATCH_BYTES),
        name="v2_batch",
    ),
    re_path(r"^v2/validate/?$", ValidationView.as_view(door=v2.typed), name="v2_validate"),
    re_path(
        r"^v2/validate/identify/?$",
        ValidationView.as_view(door=v2.identify),
        name="v2_validate_identify",
    ),
    re_path(
        r"^v2/validate/group/?$", ValidationView.as_view(door=v2.group), name="v2_validate_group"
    ),
    re_path(
        r"^v2/validate/track/?$", ValidationView.as_view(door=v2.track), name="v2_validate_track"
    ),
    re_path(
        r"^v2/validate/batch/?$",
        ValidationView.as_view(door=v2.batch, max_body_bytes=BATCH_BYTES, accepted_status=200),
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
    path("v2/workspaces", readapi.WorkspaceList.as_view(), name="v2_workspaces"),
    path(
        "v2/workspaces/<int:workspace_id>", readapi.WorkspaceDetail.as_view(), name="v2_workspace"
    ),
    path("v2/accounts", readapi.AccountList.as_view(), name="v2_accounts"),
    path("v2/accounts/<int:account_id>", readapi.AccountDetail.as_view(), name="v2_account"),
    path(
        "v2/accounts/<int:account_id>/users",
        readapi.AccountUsers.as_view(),
        name="v2_account_users",
    ),
    path("v2/users", readapi.UserList.as_view(), name="v2_users"),
    path("v2/users/<int:user_id>", readapi.UserDetail.as_view(), name="v2_user"),
    path("v2/segments", readapi.SegmentList.as_view(), name="v2_segments"),
    path("v2/segments/<int:segment_id>", readapi.SegmentDetail.as_view(), name="v2_segment"),
    path(
        "v2/segments/<int:segment_id>/members",
        readapi.SegmentMembers.as_view(),
        name="v2_segment_members",
    ),
    path("v1/accounts", readapi.LegacyAccountView.as_view(), name="v1_accounts"),
    path("mcp", McpView.as_view(report_health=mcp_health.report_health), name="mcp"),
    # After all API paths, because it matches every other path under these prefixes.
    re_path(
        r"^(?:v\d+|segment|beacon|identify|group|track|page|screen|batch|import)(?:/|$)",
        readapi.UnknownPathView.as_view(paths=API_PATHS),
        name="unknown_path",
    ),
    path("openapi.json", pages.openapi, name="openapi"),
    path("docs", pages.docs, name="docs"),
    path("docs/guides/", guides.guides, name="guides"),
    path("docs/guides/<slug:name>", guides.guide, name="guide"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    re_path(
        rf"^static/(?:[0-9a-f]{{{static_files.DIGEST_LENGTH}}}/)?(?P<path>.+)$",
        error_pages.other_release,
        name="static_of_other_release",
    ),
    path("favicon.ico", RedirectView.as_view(url=static("config/favicon.svg")), name="favicon"),
    path("invite/", invite_view, name="invite"),
    path("notifications/confirm/<str:token>", ConfirmEmailView.as_view(), name="confirm_email"),
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(url="/admin/"), name="home"),
]
