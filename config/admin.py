"""The admin site: Django's, with its own home page, navigation, and page of background jobs."""

from importlib import import_module
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.functional import SimpleLazyObject


class ServiceAdminSite(AdminSite):
    """Django's admin, whose side bar takes the place of the lists of apps and models."""

    index_template = "config/home.html"

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        if context["has_permission"]:
            # Imported late: what it imports registers itself with this site. Built late: only then
            # the page has loaded its row.
            navigation = import_module("config.dashboard.navigation")
            context["navigation"] = SimpleLazyObject(lambda: navigation.build_navigation(request))
        return context

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        # Imported late: what it imports registers itself with this site.
        home = import_module("config.dashboard.home")
        return super().index(request, {**home.home_context(request), **(extra_context or {})})

    def get_urls(self) -> list[Any]:
        own_urls = [
            path("jobs/", self.admin_view(self.jobs), name="jobs"),
            path("jobs/<int:pk>/run/", self.admin_view(self.run_job), name="jobs_run"),
            path("search/", self.admin_view(self.search), name="search"),
            path("preferences/", self.admin_view(self.preferences), name="preferences"),
        ]
        return own_urls + super().get_urls()

    def jobs(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = _jobs().jobs_view(request, self.each_context(request))
        return response

    def run_job(self, request: HttpRequest, pk: int) -> HttpResponse:
        response: HttpResponse = _jobs().run_view(request, pk)
        return response

    def preferences(self, request: HttpRequest) -> HttpResponse:
        preferences = import_module("config.dashboard.preferences")
        response: HttpResponse = preferences.preferences_view(request, self.each_context(request))
        return response

    def search(self, request: HttpRequest) -> HttpResponse:
        search = import_module("config.dashboard.search")
        response: HttpResponse = search.search_view(request, self.each_context(request))
        return response

    def app_index(  # type: ignore[override]  # it redirects instead
        self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("admin:index")

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """No page lists them."""
        return []


def _jobs() -> Any:
    return import_module("config.dashboard.jobs")
