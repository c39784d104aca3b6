"""What the admins of ingestion keys and read tokens have in common.

Only a credential's page shows its secret: once after it is created, and once each time someone
reveals it, which the history records. A secret is never in a URL, cookie, or session. The session
only stores which credential's secret the next page shows.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.auth.models import User as AdminUser
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.defaultfilters import date
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from access.admin.credential_forms import CredentialForm
from access.admin.products import LinkedInline
from access.pages.pages import ExtraView, PageAction, PageAdmin
from access.pages.scoping import Options, ProductFilter
from core import expiry
from core.fields import DecryptionError
from core.page_secrets import mark_secret
from engagement.models import Credential

SESSION_KEY = "credential_to_be_shown"


class CredentialColumns(Options):
    """The columns that describe a credential without its secret, which is not even read."""

    DESCRIBED: ClassVar[list[str]] = ["owner", "beginning", "created_at", "last_used_at", "state"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("secret").select_related("owner", "product")

    @admin.display(description="starts with")
    def beginning(self, credential: Credential) -> str:
        return f"{credential.hint}…"

    @admin.display(description="state", ordering="revoked_at")
    def state(self, credential: Credential) -> str:
        if credential.revoked_at is not None:
            return f"Revoked {date(credential.revoked_at, 'DATETIME_FORMAT')}"
        if notice := expiry.describe(credential.expires_at, timezone.now()):
            return notice.text
        if credential.expires_at is not None:
            return f"Live until {date(credential.expires_at, 'DATE_FORMAT')}"
        return "Live"


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        return [("live", "Live"), ("expired", "Expired"), ("revoked", "Revoked")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        now = timezone.now()
        match self.value():
            case "live":
                return queryset.filter(Credential.live(now))
            case "expired":
                return queryset.filter(revoked_at=None, expires_at__lte=now)
            case "revoked":
                return queryset.exclude(revoked_at=None)
        return queryset


class CredentialInline(CredentialColumns, LinkedInline):
    """A product's keys or tokens on the product's page, with buttons for managers."""

    readonly_fields = ("name", *CredentialColumns.DESCRIBED, "buttons")

    @property
    def page(self) -> "CredentialAdmin":
        page = self.admin_site.get_model_admin(self.model)
        assert isinstance(page, CredentialAdmin)
        return page

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fields = ["name", *self.DESCRIBED]
        may_change = obj is not None and obj.pk in self.page.changeable_products(request)
        return [*fields, "buttons"] if may_change else fields

    @admin.display(description="")
    def buttons(self, credential: Credential) -> SafeString:
        if credential.revoked_at is not None:
            return mark_safe("")
        # The buttons belong to another form of the page, because forms cannot be nested.
        post = '<button class="eds-row-action" form="eds-row-actions" formaction="{}">{}</button>'
        link = '<a class="eds-row-action eds-danger" href="{}">{}</a>'
        posting = [("reveal", "Reveal", post), ("rotate", "Rotate", post)]
        return format_html_join(
            " ",
            "{}",
            (
                (format_html(button, self.page.view_url(view, credential), label),)
                for view, label, button in [*posting, ("revoke", "Revoke", link)]
            ),
        )


class CredentialAdmin(CredentialColumns, PageAdmin):
    """Creates, shows, and revokes credentials. A revoked credential stays listed and revoked."""

    # A sentence that says what the secret is for.
    usage: ClassVar[str]

    form = CredentialForm
    # What the form sets besides the name.
    EDITED: ClassVar[list[str]] = ["purpose", "valid_until"]

    list_display = ["name", "product", *CredentialColumns.DESCRIBED]
    list_filter = [("product", ProductFilter), StateFilter]
    search_fields = ["name", "hint"]
    search_help_text = "Search by name or by the first characters of the secret."
    ordering = ["product__name", "product_id", "id"]
    actions = ["revoke_selected"]
    extra_views = (
        ExtraView("reveal", permission="change", methods=("POST",)),
        ExtraView("rotate", permission="change", methods=("POST",)),
        ExtraView("revoke", permission="change"),
    )

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        if obj is None:
            return ["product", "name", *self.EDITED]
        return ["product", "name", "owner", *self.EDITED, *self.DESCRIBED[1:]]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return [] if obj is None else ["product", *self.DESCRIBED[1:]]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def page_actions(self, request: HttpRequest, obj: Credential) -> Sequence[PageAction]:
        if not self.has_change_permission(request, obj):
            return []
        if obj.revoked_at is not None:
            return [PageAction("Reveal", self.view_url("reveal", obj), post=True)]
        return [
            PageAction("Reveal", self.view_url("reveal", obj), post=True),
            PageAction("Rotate", self.view_url("rotate", obj), post=True),
            PageAction("Revoke", self.view_url("revoke", obj), is_danger=True),
        ]

    def usage_context(
        self, request: HttpRequest, credential: Credential, secret: str | None
    ) -> dict[str, Any]:
        """Context that shows how to use the credential, with its secret if the page shows it."""
        return {}

    def save_model(
        self, request: HttpRequest, obj: Credential, form: "ModelForm[Any]", change: bool
    ) -> None:
        fields = ("owner", "purpose", "expires_at", *obj.RIGHTS)
        if change:
            obj.save(update_fields=["name", *fields])
            return
        obj.owner = self._login(request)
        created = type(obj).create(
            obj.product, obj.name, **{name: getattr(obj, name) for name in fields}
        )
        obj.pk, obj.hint = created.pk, created.hint
        self._show_on_next_page(request, obj)

    def response_add(
        self, request: HttpRequest, obj: Credential, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Redirect to the new credential's page, which shows its secret."""
        return redirect(self.view_url("change", obj))

    def page_context(self, request: HttpRequest, obj: Credential) -> dict[str, Any]:
        secret = None
        if request.method == "GET" and request.session.get(SESSION_KEY) == self._ticket(obj.pk):
            del request.session[SESSION_KEY]
            if self.has_change_permission(request, obj):
                secret = self._show_secret(request, obj)
        return self.usage_context(request, obj, secret)

    def reveal_view(self, request: HttpRequest, credential: Credential) -> HttpResponseBase:
        """Record the request in the trail, and show the secret on the login's next page."""
        self.log_secret_read(request, credential, "Revealed the secret.")
        self._show_on_next_page(request, credential)
        return redirect(self.view_url("change", credential))

    def rotate_view(self, request: HttpRequest, old: Credential) -> HttpResponseBase:
        """Create a replacement. The old credential stays live, so applications can be switched."""
        if old.revoked_at is not None:
            self.message_user(
                request, "This is revoked. Create a new one instead.", messages.WARNING
            )
            return redirect(self.view_url("change", old))
        with transaction.atomic():
            new = old.create_replacement(timezone.now())
            self.log_change(request, old, f"Rotated: {new.hint}… replaces it.")
            self.log_addition(request, new, f"Created to replace {old.hint}….")
        text = format_html(
            'The old one, <a href="{}">{}</a>, stays live until you revoke it.',
            self.view_url("change", old),
            old,
        )
        self.message_user(request, text, messages.WARNING)
        self._show_on_next_page(request, new)
        return redirect(self.view_url("change", new))

    def revoke_view(self, request: HttpRequest, credential: Credential) -> HttpResponseBase:
        rows = self.get_queryset(request).filter(pk=credential.pk)
        if request.method != "POST":
            return self._confirm_revoking(request, rows, self.view_url("change", credential))
        self._revoke(request, rows)
        return redirect(self.view_url("change", credential))

    @admin.action(description="Revoke selected %(verbose_name_plural)s", permissions=["change"])
    def revoke_selected(
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponseBase | None:
        if "confirmed" not in request.POST:
            return self._confirm_revoking(request, queryset, self.view_url("changelist"))
        self._revoke(request, queryset)
        return None

    def _confirm_revoking(
        self, request: HttpRequest, rows: QuerySet[Any], back: str
    ) -> HttpResponseBase:
        live = list(rows.filter(revoked_at=None).select_related("product"))
        name = self.opts.verbose_name if len(live) == 1 else self.opts.verbose_name_plural
        return self.render_page(
            request,
            "admin/engagement/revoke_confirmation.html",
            f"Revoke {name}",
            credentials=live,
            selected=request.POST.getlist("_selected_action"),
            select_across=request.POST.get("select_across", "0"),
            back=back,
        )

    def _revoke(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        with transaction.atomic():
            live = list(rows.filter(revoked_at=None).select_for_update(of=("self",)))
            rows.model.objects.filter(pk__in=[credential.pk for credential in live]).update(
                revoked_at=Now()
            )
            for credential in live:
                self.log_change(request, credential, "Revoked.")
        for credential in live:
            self.message_user(request, f"{credential} is revoked.", messages.SUCCESS)
        if not live:
            self.message_user(request, "Already revoked. Nothing changed.", messages.WARNING)

    def _login(self, request: HttpRequest) -> AdminUser | None:
        return request.user if isinstance(request.user, AdminUser) else None

    def _show_on_next_page(self, request: HttpRequest, credential: Credential) -> None:
        request.session[SESSION_KEY] = self._ticket(credential.pk)

    def _show_secret(self, request: HttpRequest, credential: Credential) -> str | None:
        """Show the secret in a message, and return it for the page."""
        try:
            secret = credential.secret
        except DecryptionError as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        mark_secret(request)
        text = format_html(
            "The secret of {}: <code class='secret' data-copy>{}</code> {}",
            credential,
            secret,
            self.usage,
        )
        self.message_user(request, text, messages.SUCCESS)
        return secret

    def _ticket(self, object_id: object) -> list[str]:
        return [self.opts.label_lower, str(object_id)]
