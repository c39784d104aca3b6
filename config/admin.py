"""The admin site: product teams' apps first, those of the service's operators last."""

from importlib import import_module
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.template.response import TemplateResponse

APP_ORDER = ["engagement", "ingestion", "readapi", "marketplace", "auth", "django_celery_beat"]
# "Users" are the customers' users. People who log in to the admin are logins.
MODEL_NAMES = {"auth.User": "Logins"}


class ServiceAdminSite(AdminSite):
    """Django's admin with its own home page and order of apps."""

    index_template = "config/home.html"

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        # Imported late: what it imports registers itself with this site.
        home = import_module("config.dashboard.home")
        return super().index(request, {**home.home_context(request), **(extra_context or {})})

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        apps: list[Any] = super().get_app_list(request, app_label)
        for app in apps:
            for model in app["models"]:
                model["name"] = MODEL_NAMES.get(model["model"]._meta.label, model["name"])
        return sorted(apps, key=lambda app: _position(app["app_label"]))


def _position(app_label: str) -> int:
    return APP_ORDER.index(app_label) if app_label in APP_ORDER else len(APP_ORDER)
