"""All URLs of the service."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import path, re_path
from django.views.generic import RedirectView

from access.admin.invitation import invite_view
from config import ingestion_urls
from config.openapi import pages
from config.operations import health, mcp_health
from config.web import error_pages, guides, static_files
from console import pages as console_pages
from console.site import ServiceAdminSite
from ingestion.forget_requests import ForgetView
from notifications.hooks import managing as hooks
from notifications.views import ConfirmEmailView, UnsubscribeView
from readapi import views as readapi
from readapi.mcp.views import McpView

handler400 = "config.web.error_pages.bad_request"
handler404 = "config.web.error_pages.not_found"
handler500 = "config.web.error_pages.server_error"

# Here, because processes without addresses, such as workers, need not load them.
ServiceAdminSite.pages = console_pages
urlpatterns = [
    *ingestion_urls.DOORS,
    re_path(r"^v2/forget/?$", ForgetView.as_view(), name="v2_forget"),
    path("v2/workspaces", readapi.WorkspaceList.as_view(), name="v2_workspaces"),
    path(
        "v2/workspaces/<int:workspace_id>", readapi.WorkspaceDetail.as_view(), name="v2_workspace"
    ),
    path(
        "v2/workspaces/<int:workspace_id>/backtests",
        readapi.BacktestList.as_view(),
        name="v2_backtests",
    ),
    path(
        "v2/workspaces/<int:workspace_id>/chances",
        readapi.ChanceList.as_view(),
        name="v2_chances",
    ),
    path(
        "v2/workspaces/<int:workspace_id>/changes",
        readapi.ChangesDetail.as_view(),
        name="v2_changes",
    ),
    path(
        "v2/workspaces/<int:workspace_id>/trends",
        readapi.TrendList.as_view(),
        name="v2_trends",
    ),
    path(
        "v2/workspaces/<int:workspace_id>/features",
        readapi.FeatureList.as_view(),
        name="v2_features",
    ),
    path(
        "v2/workspaces/<int:workspace_id>/forecasts",
        readapi.ForecastList.as_view(),
        name="v2_forecasts",
    ),
    path(
        "v2/workspaces/<int:workspace_id>/cohorts",
        readapi.CohortList.as_view(),
        name="v2_cohorts",
    ),
    path(
        "v2/workspaces/<int:workspace_id>/activation",
        readapi.ActivationDetail.as_view(),
        name="v2_activation",
    ),
    path("v2/accounts", readapi.AccountList.as_view(), name="v2_accounts"),
    path("v2/accounts/<int:account_id>", readapi.AccountDetail.as_view(), name="v2_account"),
    path(
        "v2/accounts/<int:account_id>/users",
        readapi.AccountUsers.as_view(),
        name="v2_account_users",
    ),
    path(
        "v2/accounts/<int:account_id>/timeline",
        readapi.AccountTimeline.as_view(),
        name="v2_account_timeline",
    ),
    path("v2/users", readapi.UserList.as_view(), name="v2_users"),
    path("v2/users/<int:user_id>", readapi.UserDetail.as_view(), name="v2_user"),
    path(
        "v2/users/<int:user_id>/timeline",
        readapi.UserTimeline.as_view(),
        name="v2_user_timeline",
    ),
    path("v2/segments", readapi.SegmentList.as_view(), name="v2_segments"),
    path("v2/segments/<int:segment_id>", readapi.SegmentDetail.as_view(), name="v2_segment"),
    path(
        "v2/segments/<int:segment_id>/members",
        readapi.SegmentMembers.as_view(),
        name="v2_segment_members",
    ),
    path("v2/license-events", readapi.LicenseEventList.as_view(), name="v2_license_events"),
    path("v2/hooks", readapi.HookList.as_view(hooks=hooks), name="v2_hooks"),
    path("v2/hooks/samples", readapi.HookSamples.as_view(hooks=hooks), name="v2_hook_samples"),
    path("v2/hooks/<int:hook_id>", readapi.HookDetail.as_view(hooks=hooks), name="v2_hook"),
    path("v1/accounts", readapi.LegacyAccountView.as_view(), name="v1_accounts"),
    path("mcp", McpView.as_view(report_health=mcp_health.report_health), name="mcp"),
    # After all API paths.
    *ingestion_urls.UNKNOWN_PATHS,
    path("openapi.json", pages.openapi, name="openapi"),
    path("docs", pages.docs, name="docs"),
    path("docs/guides/", guides.guides, name="guides"),
    path("docs/guides/<slug:name>", guides.guide, name="guide"),
    *ingestion_urls.HEALTH_CHECKS,
    path("metrics", health.metrics, name="metrics"),
    re_path(
        rf"^static/(?:[0-9a-f]{{{static_files.DIGEST_LENGTH}}}/)?(?P<path>.+)$",
        error_pages.other_release,
        name="static_of_other_release",
    ),
    path("favicon.ico", RedirectView.as_view(url=static("config/favicon.svg")), name="favicon"),
    path("invite/", invite_view, name="invite"),
    path("notifications/confirm/<str:token>", ConfirmEmailView.as_view(), name="confirm_email"),
    path("notifications/unsubscribe/<str:token>", UnsubscribeView.as_view(), name="unsubscribe"),
    path("admin/", admin.site.urls),
    path("", RedirectView.as_view(url="/admin/"), name="home"),
]
