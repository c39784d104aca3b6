"""Logins concern the whole service, so only superusers see them."""

from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import (
    ReadOnlyPasswordHashField,
    ReadOnlyPasswordHashWidget,
    UserChangeForm,
)
from django.contrib.auth.hashers import is_password_usable
from django.contrib.auth.models import Group
from django.contrib.auth.models import User as AdminUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Exists, Model, OuterRef, QuerySet
from django.db.models.functions import Lower
from django.forms import Media
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)

from access.admin import invites, sign_in
from access.admin.login import may_use_password
from access.logins import addresses, identities, second_factors, security_log, sessions
from access.logins import invites as logins
from access.models import ProvenAddress
from access.pages.form_context import FormContext
from access.pages.history import TrailingAdmin
from access.pages.labels import RenamedOptions
from access.pages.lookups import BoundedLookups
from access.pages.scoping import (
    RelativeTime,
    SuperusersOnly,
    deferred_script,
    without_django_scripts,
)

# Memberships decide who may do what, so groups and permissions would only mislead. The page of
# background jobs shows the schedule: one wrong click in Celery Beat's lists would stop recording
# for every product.
HIDDEN_MODELS: list[type[Model]] = [
    Group,
    PeriodicTask,
    IntervalSchedule,
    CrontabSchedule,
    SolarSchedule,
    ClockedSchedule,
]


PAGE_MEDIA = Media(
    css={"all": ["engagement/admin.css"]}, js=[deferred_script("engagement/copy.js")]
)


_LOGIN = "eds.login"


def shown_login(request: HttpRequest) -> AdminUser | None:
    """The login that the request's page is about."""
    login: AdminUser | None = request.META.get(_LOGIN)
    return login


class PasswordState(ReadOnlyPasswordHashWidget):
    """Says whether there is a password, and nothing of its hash."""

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        if value and is_password_usable(value):
            context["summary"] = [{"label": "Set."}]
        return context


class LoginChangeForm(UserChangeForm):  # type: ignore[type-arg]
    password = ReadOnlyPasswordHashField(label="Password", widget=PasswordState)

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        is_proven = addresses.is_same(name, self.instance.email) and addresses.is_proven(
            self.instance
        )
        if "username" in self.changed_data and "@" in name and not is_proven:
            raise ValidationError(
                "A name may be an email address only if the login has proven that address."
            )
        return name

    class Meta(UserChangeForm.Meta):
        help_texts: ClassVar[dict[str, str]] = {
            "username": "At most 150 letters, digits, and @ . + - _.",
            "is_active": "May log in. Clear this instead of deleting the login.",
            "is_staff": "May open the admin.",
            "is_superuser": "Sees and changes everything in all products.",
        }


def _superuser(request: HttpRequest) -> AdminUser:
    assert isinstance(request.user, AdminUser)
    return request.user


class LoginAdmin(
    RenamedOptions,
    SuperusersOnly,
    FormContext,
    TrailingAdmin,
    BoundedLookups,
    UserAdmin,  # type: ignore[type-arg]
):
    """People who log in to the admin. "Users" are the customers' users."""

    names = ("login", "logins")
    actions = None
    form = LoginChangeForm
    change_form_template = "admin/engagement/login.html"
    list_display = (
        *("username", "address", "first_name", "last_name", "is_superuser"),
        RelativeTime(AdminUser._meta.get_field("last_login")),
    )
    list_filter = ("is_superuser", "is_active")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        (
            "Access",
            {
                "fields": ("is_active", "is_staff", "is_superuser"),
                "description": "Staff see the products that they are members of. A product's page "
                "has its members.",
            },
        ),
        ("Times", {"fields": ("last_login", "date_joined")}),
    )

    @admin.display(description="email address", ordering="email")
    def address(self, login: AdminUser) -> str:
        """With single sign-on, the list says which addresses match nobody."""
        is_unproven = settings.OIDC and login.email and not login.has_proven_email  # type: ignore[attr-defined]  # annotated
        return f"{login.email} (not proven)" if is_unproven else login.email

    def get_queryset(self, request: HttpRequest) -> QuerySet[AdminUser]:
        proofs = ProvenAddress.objects.filter(user=OuterRef("pk"), email=Lower(OuterRef("email")))
        logins: QuerySet[AdminUser] = super().get_queryset(request)
        return logins.annotate(has_proven_email=Exists(proofs))

    @property
    def media(self) -> Media:
        return without_django_scripts(super().media)

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        login = super().get_object(request, object_id, from_field)
        request.META[_LOGIN] = login
        return login

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        return {} if obj is None else {"title": obj.get_username(), "subtitle": None}

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Invite somebody, who chooses the login's name and password."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = invites.LoginInviteForm(request.POST or None)
        shared: dict[str, Any] = {}
        if request.method == "POST" and form.is_valid():
            invite, token = form.create(_superuser(request), form.cleaned_data["product"])
            shared = invites.share(request, invite, token)
        return self._invite_page(request, "Add login", form=form, **shared)

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        """Make a link with which the person chooses a new password."""
        login = self.get_object(request, unquote(id))
        if not self.has_change_permission(request, login):
            raise PermissionDenied
        if login is None:
            raise Http404
        shared: dict[str, Any] = {}
        if not may_use_password(login):
            messages.error(request, f"Passwords are turned off, so {login} cannot have one.")
            return redirect("admin:auth_user_change", login.pk)
        if request.method == "POST":
            invite, token = logins.create(
                _superuser(request), timezone.now(), email=login.email, login=login
            )
            self.log_change(request, login, "Made a link to choose a new password.")
            shared = invites.share(request, invite, token)
        return self._invite_page(request, f"New password for {login}", login=login, **shared)

    def get_urls(self) -> list[URLPattern]:
        reset = path(
            "<id>/second-factors/",
            self.admin_site.admin_view(self.reset_factors_view),
            name="auth_user_reset_factors",
        )
        return [reset, *super().get_urls()]

    def reset_factors_view(self, request: HttpRequest, id: str) -> HttpResponse:
        """Delete the second factors of somebody who has lost them, and end their sessions."""
        login = self.get_object(request, unquote(id))
        if not self.has_change_permission(request, login):
            raise PermissionDenied
        if login is None:
            raise Http404
        if not sessions.is_fresh(request, timezone.now()):
            return redirect(sign_in.sign_in_again_url(request))
        back = reverse("admin:auth_user_change", args=[login.pk])
        if request.method == "POST":
            event, text = "sessions_ended", "Ended the sessions."
            if "disconnect" in request.POST:
                identities.disconnect(login)
                event, text = (
                    "single_sign_on_disconnected",
                    "Disconnected single sign-on and ended the sessions.",
                )
            elif "sessions" not in request.POST:
                second_factors.reset(login)
                event, text = (
                    "second_factors_reset",
                    "Reset the second factors and ended the sessions.",
                )
            sessions.end_all(login, keep=request.session.session_key)
            security_log.log_factor_changed(
                request, event, login.get_username(), by=str(request.user)
            )
            self.log_change(request, login, text)
            messages.success(request, f"{login}: {text[0].lower()}{text[1:]}")
            return redirect(back)
        frame = {
            **self.admin_site.each_context(request),
            "title": f"Reset the second factors of {login}",
            "opts": self.opts,
            "media": PAGE_MEDIA,
            "back": back,
            "login": login,
            "factors": second_factors.factors(login),
            "is_connected": identities.is_connected(login),
        }
        return TemplateResponse(request, "admin/engagement/reset_factors.html", frame)

    def _invite_page(self, request: HttpRequest, title: str, **context: Any) -> HttpResponse:
        frame = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "media": PAGE_MEDIA,
            "back": reverse("admin:auth_user_changelist"),
        }
        return TemplateResponse(request, "admin/engagement/invite.html", frame | context)


def restrict_to_superusers() -> None:
    """Replace Django's and Celery Beat's admins of what concerns the whole service."""
    admin.site.unregister([*HIDDEN_MODELS, AdminUser])
    admin.site.register(AdminUser, LoginAdmin)
