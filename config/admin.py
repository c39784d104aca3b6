"""The admin site: what product teams work with comes first, what runs the service last."""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest

APP_ORDER = ["engagement", "ingestion", "readapi", "marketplace", "auth", "django_celery_beat"]


class ServiceAdminSite(AdminSite):
    """Django's admin with the apps in the order in which people need them."""

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        apps: list[Any] = super().get_app_list(request, app_label)
        return sorted(apps, key=lambda app: _place(app["app_label"]))


def _place(app_label: str) -> int:
    return APP_ORDER.index(app_label) if app_label in APP_ORDER else len(APP_ORDER)
