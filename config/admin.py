"""The admin site: what product teams work with comes first, what runs the service last."""

from importlib import import_module
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse

APP_ORDER = ["engagement", "ingestion", "readapi", "marketplace", "auth", "django_celery_beat"]


class ServiceAdminSite(AdminSite):
    """Django's admin with a home page, and the apps in the order in which people need them."""

    index_template = "config/home.html"

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        # What it imports registers itself with this site, so it comes later.
        home = import_module("config.dashboard.home")
        return super().index(request, {**home.home_context(request), **(extra_context or {})})

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        apps: list[Any] = super().get_app_list(request, app_label)
        return sorted(apps, key=lambda app: _place(app["app_label"]))


def _place(app_label: str) -> int:
    return APP_ORDER.index(app_label) if app_label in APP_ORDER else len(APP_ORDER)
