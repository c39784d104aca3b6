"""All URLs of the service."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import path, re_path
from django.views.generic import RedirectView

from config import health
from config.openapi import pages
from ingestion import segment_views as segment
from ingestion import views as ingestion
from readapi import views as readapi

handler400 = "config.error_pages.bad_request"

urlpatterns = [
    path("v2/identify", ingestion.IdentifyView.as_view()),
    path("v2/group", ingestion.GroupView.as_view()),
    path("v2/track", ingestion.TrackView.as_view()),
    path("v1/users", ingestion.LegacyUserView.as_view()),
    path("v1/groups", ingestion.LegacyGroupView.as_view()),
    path("v1/events", ingestion.LegacyEventView.as_view()),
    path("segment", segment.SegmentWebhookView.as_view()),
    re_path(r"^segment/v1/(?:batch|import|b)$", segment.SegmentBatchView.as_view()),
    re_path(r"^segment/v1/(?:identify|i)$", segment.SegmentIdentifyView.as_view()),
    re_path(r"^segment/v1/(?:group|g)$", segment.SegmentGroupView.as_view()),
    re_path(r"^segment/v1/(?:track|t)$", segment.SegmentTrackView.as_view()),
    re_path(r"^segment/v1/(?:page|p)$", segment.SegmentPageView.as_view()),
    re_path(r"^segment/v1/(?:screen|s)$", segment.SegmentScreenView.as_view()),
    re_path(r"^segment/v1/(?:alias|a)$", segment.SegmentAliasView.as_view()),
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
    path("favicon.ico", RedirectView.as_view(url=static("config/favicon.svg"))),
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(url="/admin/")),
]
