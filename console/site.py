"""The admin site: Django's, with its own home page, navigation, and page of background jobs."""

from types import ModuleType
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.forms import AdminPasswordChangeForm
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.cache import patch_cache_control
from django.utils.functional import SimpleLazyObject
from django.views.decorators.cache import never_cache

from core.version import VERSION


class ServiceAdminSite(AdminSite):
    """Django's admin, whose side bar takes the place of the lists of apps and models.

    *pages* is the module ``console.pages``. ``config.urls`` sets it, because what the pages import
    registers itself with this site, which therefore must exist first.
    """

    pages: ModuleType
    index_template = "config/home.html"
    empty_value_display = "–"

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        if context["has_permission"]:
            context["version"] = VERSION
            # Built late: only then the page has loaded its row.
            build = self.pages.navigation.build_navigation
            context["navigation"] = SimpleLazyObject(lambda: build(request))
        return context

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        context = self.pages.home.home_context(request)
        return super().index(request, {**context, **(extra_context or {})})

    def i18n_javascript(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """A script without which the browser paints no form: each person loads it once a day."""
        response: HttpResponse = super().i18n_javascript(request, extra_context)
        patch_cache_control(response, private=True, max_age=24 * 3600)
        return response

    def get_urls(self) -> list[Any]:
        own_urls = [
            path("jobs/", self.admin_view(self.jobs), name="jobs"),
            path("jobs/<int:pk>/run/", self.admin_view(self.run_job), name="jobs_run"),
            *(
                path(
                    f"jobs/steps/<int:pk>/{change}/",
                    self.admin_view(self.change_job),
                    {"change": change},
                    name=f"jobs_{change}",
                )
                for change in ("pause", "resume")
            ),
            path("licenses/", self.admin_view(self.licenses), name="licenses"),
            path(
                "licenses/reconciliation/",
                self.admin_view(self.reconciliation),
                name="licenses_reconciliation",
            ),
            path("licenses/matching/", self.admin_view(self.matching), name="licenses_matching"),
            path("search/", self.admin_view(self.search), name="search"),
            path("preferences/", self.admin_view(self.preferences), name="preferences"),
        ]
        return own_urls + self._sign_in_urls() + super().get_urls()

    def _sign_in_urls(self) -> list[Any]:
        sign_in = self.pages.sign_in

        def wrap(view: Any) -> Any:
            def in_frame(request: HttpRequest, **arguments: Any) -> Any:
                return view(request, self.each_context(request), *arguments.values())

            return self.admin_view(in_frame)

        return [
            path("login/second-factor/", sign_in.second_factor_view, name="second_factor"),
            path("login/single-sign-on/", sign_in.single_sign_on_view, name="single_sign_on"),
            path(
                "login/single-sign-on/callback/",
                sign_in.provider_callback_view,
                name="single_sign_on_callback",
            ),
            *self.pages.account.account_urls(wrap),
        ]

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        sign_in = self.pages.sign_in
        is_again = sign_in.is_again(request)
        if request.method == "GET" and self.has_permission(request) and not is_again:
            return redirect("admin:index")
        context = {
            **self.each_context(request),
            # Somebody who logs in again sees the page as everybody else.
            "has_permission": False,
            "navigation": None,
            "title": "Log in",
            "subtitle": None,
            "app_path": request.get_full_path(),
            "username": request.user.get_username(),
            **({} if "next" in request.GET else {"next": reverse("admin:index")}),
            **(extra_context or {}),
        }
        view = sign_in.SignInView.as_view(extra_context=context)
        response: HttpResponse = never_cache(login_not_required(view))(request)
        return response

    def logout(  # type: ignore[override]  # it may redirect
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response: HttpResponse = super().logout(request, extra_context)
        # Also the pages that the browser keeps for its back button.
        response.headers["Clear-Site-Data"] = '"cache"'
        return response

    def password_change(  # type: ignore[override]  # it may redirect
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        account = self.pages.account
        if not account.may_use_password(request.user):
            return redirect("admin:account")
        response: HttpResponse = account.ChangePasswordView.as_view(
            form_class=AdminPasswordChangeForm,
            success_url=reverse("admin:password_change_done"),
            template_name="registration/password_change_form.html",
            extra_context={**self.each_context(request), **(extra_context or {})},
        )(request)
        return response

    def jobs(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = self.pages.jobs.jobs_view(request, self.each_context(request))
        return response

    def run_job(self, request: HttpRequest, pk: int) -> HttpResponse:
        response: HttpResponse = self.pages.jobs.run_view(request, pk)
        return response

    def change_job(self, request: HttpRequest, pk: int, change: str) -> HttpResponse:
        response: HttpResponse = self.pages.jobs.change_view(request, pk, change)
        return response

    def licenses(self, request: HttpRequest) -> HttpResponse:
        context = self.each_context(request)
        response: HttpResponse = self.pages.licenses.licenses_view(request, context)
        return response

    def reconciliation(self, request: HttpRequest) -> HttpResponse:
        context = self.each_context(request)
        view = self.pages.reconciliation.reconciliation_view
        response: HttpResponse = view(request, context)
        return response

    def matching(self, request: HttpRequest) -> HttpResponse:
        context = self.each_context(request)
        response: HttpResponse = self.pages.matching.matching_view(request, context)
        return response

    def preferences(self, request: HttpRequest) -> HttpResponse:
        context = self.each_context(request)
        response: HttpResponse = self.pages.preferences.preferences_view(request, context)
        return response

    def search(self, request: HttpRequest) -> HttpResponse:
        context = self.each_context(request)
        response: HttpResponse = self.pages.search.search_view(request, context)
        return response

    def app_index(  # type: ignore[override]  # it redirects instead
        self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("admin:index")

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """No page lists them."""
        return []
