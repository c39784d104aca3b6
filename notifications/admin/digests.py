"""The admin pages of digests. Members make their own and see all; managers change all."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.http import urlencode

from access.pages.pages import ExtraView, OutboundFormAdmin, PageAction, ProductColumnAdmin
from access.pages.place import requested_product, requested_workspace
from access.pages.scoping import ProductFilter, ProductSet, request_access
from access.trail.models_followed import follow
from engagement.models import Workspace
from notifications import verification
from notifications.admin.digest_forms import DigestForm
from notifications.digests import content, writing
from notifications.digests.rendering import render
from notifications.models import Destination, Digest
from trends.changes.sections import Block, describe
from trends.changes.whose import NoChanges

follow(
    Digest,
    "digest",
    (
        *("workspace__name", "segment__name", "view__name", "destination__name", "cadence"),
        *("weekday", "hour", "time_zone", "is_enabled"),
    ),
)
# For viewers, of digests of others.
_SHOWN = ["about", "schedule", "receiver"]
# An email, as its reader sees it: with its own styles, and nothing else.
_PREVIEW_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


@admin.register(Digest)
class DigestAdmin(OutboundFormAdmin, ProductColumnAdmin):
    empty_text = (
        "There are no digests yet. One tells once a week, or once a day, what changed in a "
        "workspace, in a segment, or in a saved view."
    )
    credential_fields = ()
    form = DigestForm
    list_display = ["about", "schedule", "receiver", "state_label", "product"]
    list_display_links = ["about"]
    list_filter = [("product", ProductFilter), "cadence", "is_enabled"]
    list_select_related = list(content.RELATED)
    ordering = ["product__name", "product_id", "id"]
    sortable_by = ()
    actions = None
    change_form_template = "admin/notifications/digest.html"
    extra_views = (ExtraView("preview", permission="view", methods=("GET", "HEAD")),)

    class Media:
        css: ClassVar[dict[str, list[str]]] = {
            "all": ["notifications/notifications.css", "config/attention.css", "config/changes.css"]
        }

    # --- Who may what -------------------------------------------------------------------------

    def changeable_products(self, request: HttpRequest) -> ProductSet:
        """Viewers make digests, too."""
        return request_access(request).visible

    def may_change(self, request: HttpRequest, obj: Any = None) -> bool:
        is_own = obj is not None and obj.owner_id == request.user.pk
        if obj is None or is_own:
            return super().may_change(request, obj)
        return obj.product_id in request_access(request).managed

    # --- The list -----------------------------------------------------------------------------

    @admin.display(description="what changed in")
    def about(self, digest: Digest) -> str:
        return digest.subject

    @admin.display(description="when")
    def schedule(self, digest: Digest) -> str:
        return content.describe_schedule(digest)

    @admin.display(description="to")
    def receiver(self, digest: Digest) -> str:
        is_personal = digest.destination.owner_id is not None
        return str(digest.owner) if is_personal else str(digest.destination)

    @admin.display(description="state")
    def state_label(self, digest: Digest) -> str:
        if digest.unsubscribed_at is not None:
            return "Unsubscribed by its reader"
        if not digest.is_enabled:
            return "Off"
        state = Destination.State(digest.destination.state)
        if state == Destination.State.UNVERIFIED:
            return "Waits for the address to be confirmed"
        return "On" if state == Destination.State.ACTIVE else "Destination is paused"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related(*self.list_select_related)

    # --- The form -----------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        if obj and not self.has_change_permission(request, obj):
            return _SHOWN
        names = ["source", "cadence", "weekday", "hour", "time_zone", "receiver"]
        return [*names, "is_enabled"] if obj else ["workspace", *names]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return _SHOWN if obj and not self.has_change_permission(request, obj) else []

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        # The form declares the others itself.
        fields = ["cadence", "weekday"] + (["is_enabled"] if change else ["workspace"])
        form = super().get_form(request, obj, change, **{**kwargs, "fields": fields})
        return type(form.__name__, (form,), {"request": request})

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "workspace":
            kwargs["queryset"] = _workspaces(request)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial = super().get_changeform_initial_data(request)
        return {**initial, "workspace": requested_workspace(request)}

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        digest = obj or context["adminform"].form.instance
        context = super().form_context(request, context, obj)
        return context | ({"digest": digest, **_preview(digest)} if digest.workspace_id else {})

    def page_context(self, request: HttpRequest, obj: Digest) -> dict[str, Any]:
        return {"title": str(obj), "state_label": self.state_label(obj)}

    def page_actions(self, request: HttpRequest, obj: Digest) -> Sequence[PageAction]:
        return [PageAction("Preview as email", self.view_url("preview", obj))]

    def save_model(self, request: HttpRequest, obj: Digest, form: Any, change: bool) -> None:
        now = timezone.now()
        with transaction.atomic():
            form.apply(request.build_absolute_uri("/").rstrip("/"), now)
            obj.save()
            if not change:
                writing.skip_present(obj, now)

    def response_add(
        self, request: HttpRequest, obj: Digest, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self._to_list(request, obj)

    def response_change(self, request: HttpRequest, obj: Digest) -> HttpResponse:
        return self._to_list(request, obj)

    def _to_list(self, request: HttpRequest, obj: Digest) -> HttpResponse:
        """Redirect to the digests of the product, and have an address confirmed."""
        text, level = f"{obj}: {content.describe_schedule(obj)}.", messages.SUCCESS
        if obj.is_enabled and obj.destination.state == Destination.State.UNVERIFIED:
            result = verification.send_test(obj.destination_id, timezone.now())
            hint = obj.destination.address_hint
            text = f"{text} Open the link that was sent to {hint} to begin."
            if not result.is_delivered:
                text = f"The digest is saved, but no link could be sent to {hint}. {result.error}"
                level = messages.ERROR
        self.message_user(request, text, level)
        query = urlencode({"product__id__exact": obj.product_id})
        return redirect(f"{self.view_url('changelist')}?{query}")

    # --- The preview --------------------------------------------------------------------------

    def preview_view(self, request: HttpRequest, digest: Digest) -> HttpResponse:
        """The email as it would be now."""
        try:
            email = render(content.build(digest), digest.destination.site_url)
        except NoChanges as error:
            self.message_user(request, str(error), messages.ERROR)
            return redirect(self.view_url("change", digest))
        return HttpResponse(email.html, headers={"Content-Security-Policy": _PREVIEW_POLICY})


def _workspaces(request: HttpRequest) -> QuerySet[Workspace]:
    rows = Workspace.objects.select_related("product", "scores__cached_counts")
    product = requested_product(request)
    if product is not None:
        rows = rows.filter(product=product)
    visible = request_access(request).visible.filter_rows(rows, "product")
    return visible.order_by("product__name", "pk")


def _preview(digest: Digest) -> dict[str, Block | str]:
    try:
        text = content.build(digest)
    except NoChanges as error:
        return {"no_preview": str(error)}
    return {"preview": describe(text.changes, text.places)}
