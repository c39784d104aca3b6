"""Products with their workspaces and members. Other apps add keys, tokens, and connections."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.models import User as AdminUser
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from access.admin import invites, leaks
from access.admin.limits import LimitsInline, limits_context
from access.admin.work_settings import WorkSettingsPages
from access.logins import invites as logins
from access.pages.pages import ExtraView, PageAction, PageAdmin
from access.pages.scoping import (
    Inline,
    NamedFieldsFormSet,
    ProductScopedAdmin,
    ReadOnly,
    SuperusersOnly,
    TabularInline,
)
from core.ids import parse_id
from engagement import tasks
from engagement.models import Product, ProductMember, Workspace
from engagement.models.trait_changes import NAME_LENGTH
from engagement.recording.stored_traits import MAX_CHOSEN
from engagement.removal import deletion
from engagement.traits import canonical_name


class LinkedInline(ReadOnly, TabularInline):
    """A read-only table of a product's rows, with links to their pages and to add one."""

    template = "admin/engagement/linked_rows.html"
    tab = "keys"

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset: Any = super().get_formset(request, obj, **kwargs)
        rows = self.admin_site.get_model_admin(self.model)
        assert isinstance(rows, ProductScopedAdmin)
        formset.may_add = rows.has_add_permission(request) and (
            obj is not None and obj.pk in rows.changeable_products(request)
        )
        return formset


class ProductForm(ModelForm):  # type: ignore[type-arg]
    """A product's name and, once it exists, the traits whose changes are kept."""

    history = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="Traits with a history",
        help_text=f"Trait names of accounts, one per line, {MAX_CHOSEN} at most. Their changes "
        "are kept from now on, and outcomes may follow from them.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["history"] = "\n".join(sorted(self.instance.history_traits))
        else:
            del self.fields["history"]

    def clean_history(self) -> str:
        """Keeps since when the changes of a trait are known."""
        text: str = self.cleaned_data["history"]
        names = {canonical_name(line.strip()) for line in text.splitlines()} - {""}
        if len(names) > MAX_CHOSEN:
            raise forms.ValidationError(f"Choose at most {MAX_CHOSEN} traits.")
        if any(len(name) > NAME_LENGTH for name in names):
            raise forms.ValidationError(f"A name has at most {NAME_LENGTH} characters.")
        today = timezone.now().date().isoformat()
        stored = self.instance.history_traits
        self.instance.history_traits = {name: stored.get(name, today) for name in sorted(names)}
        return text


@dataclass(frozen=True)
class Section:
    """A part of a product's page: a template and its context, on one of the tabs."""

    template: str
    context: dict[str, Any]
    tab: str = "general"


@dataclass(frozen=True)
class Tab:
    """A part of the settings with an anchor of its own."""

    name: str
    label: str
    inlines: Sequence[Any]
    sections: Sequence[Section]


# An inline or a section says by name to which it belongs.
TABS = {
    "general": "General",
    "members": "Members",
    "keys": "Keys and tokens",
    "marketplace": "Marketplace",
    "limits": "Limits",
}


class WorkspaceInline(LinkedInline):
    model = Workspace
    tab = "general"
    fields = readonly_fields = ("name", "counting", "default_weight", "created_at")

    def counting(self, workspace: Workspace) -> str:
        return workspace.counting


class MemberFormSet(NamedFieldsFormSet):
    def row_name(self, form: Any) -> str:
        return str(form.instance.user) if form.instance.pk else ""


class MemberInline(SuperusersOnly, TabularInline):
    """The product's members, visible to all of them.

    Choosing a login shows the names of all logins, so only superusers add members.
    """

    model = ProductMember
    tab = "members"
    verbose_name = "member"
    autocomplete_fields = ["user"]
    formset = MemberFormSet
    # Below the table, in place of what the fields say.
    note = f"{invites.ROLE_HELP} A viewer may get the right to manage the marketplace connection, "
    note += "and the one to work on accounts: to choose owners, write notes, and close alarms."
    readonly_fields = ["login", "connections", "accounts"]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return TabularInline.has_view_permission(self, request, obj)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """The login by this name, because users are those of the product."""
        if self.has_change_permission(request, obj):
            return ["user", "role", "may_manage_connections", "may_work_on_accounts"]
        return ["login", "role", "connections", "accounts"]

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        return super().formfield_for_foreignkey(db_field, request, **{"label": "Login", **kwargs})

    @admin.display(description="login")
    def login(self, member: ProductMember) -> str:
        return str(member.user)

    @admin.display(description="may manage connections")
    def connections(self, member: ProductMember) -> str:
        # Django would show an icon.
        return self._has(member, member.may_manage_connections)

    @admin.display(description="may work on accounts")
    def accounts(self, member: ProductMember) -> str:
        return self._has(member, member.may_work_on_accounts)

    def _has(self, member: ProductMember, right: bool) -> str:
        return "Yes" if right or member.role == ProductMember.Role.MANAGER else "No"


@admin.register(Product)
class ProductAdmin(WorkSettingsPages, PageAdmin):
    form = ProductForm
    product_path = "pk"
    list_display = ["name", "workspace_names", "created_at", "deletion"]
    search_fields = ["name"]
    readonly_fields = ["created_at", "deletion", "history_names"]
    inlines: ClassVar[list[type[Inline]]] = [WorkspaceInline, LimitsInline, MemberInline]

    change_form_template = "admin/engagement/product.html"
    # Added by other apps, shown below the rows.
    sections: ClassVar[list[Callable[[HttpRequest, Product], Section]]] = []
    extra_views = (
        ExtraView("delete_all", permission="delete_all"),
        ExtraView("invite", permission="change"),
        ExtraView("work", permission="change"),
        ExtraView("revoke_invite", permission="change", methods=("POST",)),
        ExtraView("dismiss_checklist", permission="change", methods=("POST",)),
        ExtraView("leaked_secret", permission="change", needs_row=False),
    )
    # Called for a new product. Each may return the URL of the page to show next.
    first_steps: ClassVar[list[Callable[[HttpRequest, Product], str | None]]] = []

    @classmethod
    def add_first_step(cls, step: Callable[[HttpRequest, Product], str | None]) -> None:
        """Have another app create something for each product that is added in the admin."""
        cls.first_steps = [*cls.first_steps, step]

    @classmethod
    def add_section(cls, section: Callable[[HttpRequest, Product], Section]) -> None:
        """Show another app's section below the rows of a product's page."""
        cls.sections = [*cls.sections, section]

    @classmethod
    def add_inline(cls, inline: type[LinkedInline]) -> None:
        """Show another app's rows on a product's page. Only that app imports this one."""
        cls.inlines = [*cls.inlines[:-1], inline, cls.inlines[-1]]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("workspaces")

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[type[Inline]]:
        return self.inlines if obj else []

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        if obj is None:
            return ["name"]
        history = "history" if self.has_change_permission(request, obj) else "history_names"
        deletion = ["deletion"] if obj.deletion_requested_at else []
        return ["name", history, "created_at", *deletion]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_being_deleted = obj is not None and obj.deletion_requested_at is not None
        return not is_being_deleted and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Django would delete millions of rows within one request.
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return super().has_module_permission(request) or self.has_add_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        # A new product has no members, so Django's permission decides.
        return request.user.has_perm("engagement.add_product")

    def has_delete_all_permission(self, request: HttpRequest, product: Product) -> bool:
        # It deletes all of a team's data, so being a manager is not enough.
        is_permitted = request.user.has_perm("engagement.delete_product")
        return is_permitted and self.may_change(request, product)

    def dismiss_checklist_view(self, request: HttpRequest, product: Product) -> HttpResponseBase:
        product.shows_checklist = False
        product.save(update_fields=["shows_checklist"])
        self.log_change(request, product, "Dismissed the checklist.")
        return redirect(f"{reverse('admin:index')}?product={product.pk}")

    def page_actions(self, request: HttpRequest, obj: Product) -> Sequence[PageAction]:
        actions = []
        if self.has_change_permission(request, obj):
            actions.append(PageAction("Invite", self.view_url("invite", obj)))
            actions.append(PageAction("Owners and results", self.view_url("work", obj)))
            actions.append(PageAction("Find leaked secret", self.view_url("leaked_secret")))
        if not obj.deletion_requested_at and self.has_delete_all_permission(request, obj):
            actions.append(PageAction("Delete", self.view_url("delete_all", obj), is_danger=True))
        return actions

    def page_context(self, request: HttpRequest, obj: Product) -> dict[str, Any]:
        sections = [section(request, obj) for section in self.sections]
        if self.has_change_permission(request, obj):
            context = {
                "revoke_invite": self.view_url("revoke_invite", obj),
                "invites": invites.listed_invites(obj),
            }
            sections.insert(0, Section("admin/engagement/invites.html", context, "members"))
        return {"sections": sections}

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        own = super().form_context(request, context, obj)
        if obj is None:
            return own
        # The table of limits has the fields of the form that sets them.
        own_limits = [
            each for each in context["inline_admin_formsets"] if each.opts.tab == "limits"
        ]
        limits = Section(LimitsInline.template, limits_context(obj, own_limits), "limits")
        sections = [*own.pop("sections"), limits]
        inlines = [each for each in context["inline_admin_formsets"] if each not in own_limits]
        tabs = [
            Tab(
                name,
                label,
                [each for each in inlines if each.opts.tab == name],
                [each for each in sections if each.tab == name],
            )
            for name, label in TABS.items()
        ]
        filled = [each for each in tabs if each.inlines or each.sections or each.name == "general"]
        return {**own, "tabs": filled}

    def invite_view(self, request: HttpRequest, product: Product) -> HttpResponseBase:
        """Invite somebody. The response to the form is the only page that shows the link."""
        form = invites.InviteForm(request.POST or None)
        shared: dict[str, Any] = {}
        if request.method == "POST" and form.is_valid():
            assert isinstance(request.user, AdminUser)
            invite, token = form.create(request.user, product)
            role = invite.get_role_display().lower()
            self.log_change(
                request, product, f"Invited {invite.email or 'somebody by link'} as a {role}."
            )
            shared = invites.share(request, invite, token)
        back = f"{self.view_url('change', product)}#invites"
        return self.render_page(
            request,
            "admin/engagement/invite.html",
            f"Invite to {product}",
            original=product,
            form=form,
            back=back,
            **shared,
        )

    def revoke_invite_view(self, request: HttpRequest, product: Product) -> HttpResponseBase:
        invite = parse_id(request.POST.get("invite", ""))
        if invite is not None and logins.revoke(invite, product.pk, timezone.now()):
            self.log_change(request, product, "Revoked an invite.")
            self.message_user(request, "The invite is revoked. Its link no longer works.")
        else:
            text = "Nothing to revoke: the invite was used, revoked, or has expired."
            self.message_user(request, text, messages.WARNING)
        return redirect(f"{self.view_url('change', product)}#invites")

    def leaked_secret_view(self, request: HttpRequest) -> HttpResponseBase:
        return leaks.leak_view(request, self)

    def delete_all_view(self, request: HttpRequest, product: Product) -> HttpResponseBase:
        typed_name = request.POST.get("name", "").strip()
        if request.method != "POST" or typed_name != product.name.strip():
            return self.render_page(
                request,
                "admin/engagement/delete_product.html",
                f"Delete {product}?",
                row=product,
                is_mistyped=request.method == "POST",
                back=self.view_url("change", product),
            )
        if deletion.request_deletion(product.pk, timezone.now()):
            self.log_deletions(request, Product.objects.filter(pk=product.pk))
        tasks.request_clearing()
        self.message_user(request, f"{product} is being deleted in the background.")
        return redirect("admin:engagement_product_changelist")

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect to the page that deletes the product in the background."""
        product = self.get_object(request, unquote(object_id))
        if product is not None and self.has_delete_all_permission(request, product):
            return redirect(self.view_url("delete_all", product))
        return super().delete_view(request, object_id, extra_context)

    def save_model(
        self, request: HttpRequest, obj: Product, form: "ModelForm[Any]", change: bool
    ) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        obj.pk = Product.create_with_workspace(obj.name).pk
        if isinstance(request.user, AdminUser) and not request.user.is_superuser:
            # Who creates a product manages it.
            manager = ProductMember.Role.MANAGER
            ProductMember.objects.create(product=obj, user=request.user, role=manager)

    def response_add(
        self, request: HttpRequest, obj: Product, post_url_continue: str | None = None
    ) -> HttpResponse:
        pages = [step(request, obj) for step in self.first_steps]
        response = super().response_add(request, obj, post_url_continue)
        return next((redirect(page) for page in pages if page), response)

    @admin.display(description="state", empty_value="")
    def deletion(self, product: Product) -> str | None:
        if product.deletion_requested_at is None:
            return None
        return f"Being deleted: {product.deleted_rows:,} rows so far"

    @admin.display(description="traits with a history", empty_value="None")
    def history_names(self, product: Product) -> str | None:
        return ", ".join(sorted(product.history_traits)) or None

    @admin.display(description="workspaces")
    def workspace_names(self, product: Product) -> SafeString:
        links = [
            (reverse("admin:engagement_workspace_change", args=[workspace.pk]), workspace.name)
            for workspace in product.workspaces.all()
        ]
        return format_html_join(", ", '<a href="{}">{}</a>', links)
