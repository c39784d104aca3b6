"""Products: their workspaces, members and, from the apps that keep them, keys and tokens."""

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.auth.models import User as AdminUser
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from engagement.admin.scoping import (
    Inline,
    ProductScopedAdmin,
    ReadOnly,
    SuperusersOnly,
    TabularInline,
)
from engagement.models import Product, ProductMember, Workspace


class LinkedRows(ReadOnly, TabularInline):
    """A table of a product's rows, each with a link to its own page, and a link to add one."""

    template = "admin/engagement/linked_rows.html"
    extra = 0

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset = super().get_formset(request, obj, **kwargs)
        formset.may_add = request.user.has_perm(  # type: ignore[attr-defined]
            f"{self.opts.app_label}.add_{self.opts.model_name}"
        )
        return formset


class WorkspaceInline(LinkedRows):
    model = Workspace
    fields = readonly_fields = ("name", "lookback_days", "default_weight", "created_at")


class MemberInline(SuperusersOnly, TabularInline):
    """Who may see the product. Naming somebody shows everybody's logins, so superusers do it."""

    model = ProductMember
    verbose_name = "member"
    autocomplete_fields = ["user"]
    extra = 0


@admin.register(Product)
class ProductAdmin(ProductScopedAdmin):
    product_path = "pk"
    list_display = ["name", "workspace_names", "created_at"]
    search_fields = ["name"]
    readonly_fields = ["created_at"]
    inlines: ClassVar[list[type[Inline]]] = [WorkspaceInline, MemberInline]

    @classmethod
    def show_rows(cls, inline: type[LinkedRows]) -> None:
        """Show another app's rows on a product's page; imports point from that app to this one."""
        cls.inlines = [*cls.inlines[:-1], inline, cls.inlines[-1]]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("workspaces")

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[type[Inline]]:
        return self.inlines if obj else []

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return ["name", "created_at"] if obj else ["name"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # It would take millions of rows with it, one request long.
        return False

    def save_model(
        self, request: HttpRequest, obj: Product, form: "ModelForm[Any]", change: bool
    ) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        obj.pk = Product.create_with_workspace(obj.name).pk
        if isinstance(request.user, AdminUser) and not request.user.is_superuser:
            # Whoever makes a product may see it.
            ProductMember.objects.create(product=obj, user=request.user)

    @admin.display(description="workspaces")
    def workspace_names(self, product: Product) -> SafeString:
        links = [
            (reverse("admin:engagement_workspace_change", args=[workspace.pk]), workspace.name)
            for workspace in product.workspaces.all()
        ]
        return format_html_join(", ", '<a href="{}">{}</a>', links)
