"""All URLs of the service."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import path, re_path
from django.views.generic import RedirectView

from config import error_pages, health, static_files
from config.openapi import pages
from ingestion.doors import bodies, segment, v1, v2
from ingestion.views import IngestionView, SegmentSdkView, SegmentWebhookView
from readapi import views as readapi

handler400 = "config.error_pages.bad_request"

urlpatterns = [
    path("v2/identify", IngestionView.as_view(door=v2.identify)),
    path("v2/group", IngestionView.as_view(door=v2.group)),
    path("v2/track", IngestionView.as_view(door=v2.track)),
    path("v1/users", IngestionView.as_view(door=v1.user)),
    path("v1/groups", IngestionView.as_view(door=v1.group)),
    path("v1/events", IngestionView.as_view(door=v1.event)),
    path("segment", SegmentWebhookView.as_view(door=segment.webhook)),
    re_path(
        r"^segment/v1/(?:batch|import|b)$",
        SegmentSdkView.as_view(door=segment.batch, max_body_bytes=bodies.MAX_BATCH_BODY_BYTES),
    ),
    re_path(r"^segment/v1/(?:identify|i)$", SegmentSdkView.as_view(door=segment.identify)),
    re_path(r"^segment/v1/(?:group|g)$", SegmentSdkView.as_view(door=segment.group)),
    re_path(r"^segment/v1/(?:track|t)$", SegmentSdkView.as_view(door=segment.track)),
    re_path(r"^segment/v1/(?:page|p)$", SegmentSdkView.as_view(door=segment.page)),
    re_path(r"^segment/v1/(?:screen|s)$", SegmentSdkView.as_view(door=segment.screen)),
    re_path(r"^segment/v1/(?:alias|a)$", SegmentSdkView.as_view(door=segment.alias)),
    path("v2/workspaces", readapi.WorkspaceList.as_view()),
    path("v2/workspaces/<int:workspace_id>", readapi.WorkspaceDetail.as_view()),
    path("v2/accounts", readapi.AccountList.as_view()),
    path("v2/accounts/<int:account_id>", readapi.AccountDetail.as_view()),
    path("v2/users", readapi.UserList.as_view()),
    path("v2/users/<int:user_id>", readapi.UserDetail.as_view()),
    path("v2/segments", readapi.SegmentList.as_view()),
    path("v2/segments/<int:segment_id>", readapi.SegmentDetail.as_view()),
    path("v2/segments/<int:segment_id>/members", readapi.SegmentMembers.as_view()),
    path("v1/accounts", readapi.LegacyAccountView.as_view()),
    # After all API paths, because it matches every other path under these prefixes.
    re_path(r"^(?:v[12]|segment)(?:/|$)", readapi.UnknownPathView.as_view()),
    path("openapi.json", pages.openapi, name="openapi"),
    path("docs", pages.docs),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
    re_path(
        rf"^static/(?:[0-9a-f]{{{static_files.DIGEST_LENGTH}}}/)?(?P<path>.+)$",
        error_pages.other_release,
    ),
    path("favicon.ico", RedirectView.as_view(url=static("config/favicon.svg"))),
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(url="/admin/")),
]
