"""Who may see and change what: superusers everything, other logins what they are a member of.

A viewer of a product sees everything but secrets. A manager also changes it. Managing the
marketplace connection can be granted separately.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from django.contrib import admin
from django.contrib.admin.options import BaseModelAdmin, InlineModelAdmin
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.auth.models import User as AdminUser
from django.db.models import DateTimeField, Field, ForeignKey, QuerySet
from django.forms import BaseInlineFormSet, Media, ModelChoiceField, TypedChoiceField
from django.forms.widgets import Script
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from access.pages.history import TrailingAdmin
from access.pages.lookups import BoundedLookups
from core.time_format import format_ago
from engagement.models import Product, ProductMember

if TYPE_CHECKING:
    # Django's admin classes take a type parameter in their type stubs only.
    PlainInline: TypeAlias = admin.TabularInline[Any, Any]
    Inline: TypeAlias = InlineModelAdmin[Any, Any]
    Options: TypeAlias = BaseModelAdmin[Any]
else:
    PlainInline = admin.TabularInline
    Inline = InlineModelAdmin
    Options = object


def sees_all_products(user: AbstractBaseUser | AnonymousUser) -> bool:
    return isinstance(user, AdminUser) and user.is_active and user.is_superuser


def visible_products(user: AbstractBaseUser | AnonymousUser) -> QuerySet[Product]:
    """The products whose pages *user* may open."""
    if sees_all_products(user):
        return Product.objects.all()
    # For nobody's id, NULL, the filter would find the products without members.
    return Product.objects.filter(members=user.pk) if user.pk else Product.objects.none()


@dataclass(frozen=True)
class ProductSet:
    """A set of product ids. ``is_all`` means every product."""

    ids: frozenset[int] = frozenset()
    is_all: bool = False

    def __contains__(self, product_id: int | None) -> bool:
        return self.is_all or product_id in self.ids

    def __bool__(self) -> bool:
        return self.is_all or bool(self.ids)

    def filter_rows(self, rows: QuerySet[Any], path: str) -> QuerySet[Any]:
        """The *rows* whose product, which *path* leads to, is in the set."""
        return rows if self.is_all else rows.filter(**{f"{path}__in": self.ids})


@dataclass(frozen=True)
class Access:
    """The products that a login may see and manage.

    Only memberships count, and superusers may do everything. Django's model permissions do not
    apply to rows that belong to a product.
    """

    visible: ProductSet
    managed: ProductSet
    # Products whose marketplace connection the login may manage.
    connectable: ProductSet
    # Products on whose accounts the login may work.
    workable: ProductSet = ProductSet()


_ROW = "eds.row"


def shown_row(request: HttpRequest) -> "tuple[Any, ProductScopedAdmin] | None":
    """The row that the request's page is about, with its admin. None for other pages."""
    row: tuple[Any, ProductScopedAdmin] | None = request.META.get(_ROW)
    return row


_FULL_ACCESS = Access(*[ProductSet(is_all=True)] * 4)
_ACCESS = "eds.access"


def request_access(request: HttpRequest) -> Access:
    """The access of the request's login, loaded once per request."""
    if _ACCESS not in request.META:
        request.META[_ACCESS] = _load_access(request.user)
    access: Access = request.META[_ACCESS]
    return access


def _load_access(user: AbstractBaseUser | AnonymousUser) -> Access:
    if sees_all_products(user):
        return _FULL_ACCESS
    memberships = list(ProductMember.objects.filter(user=user.pk))
    managing = [member for member in memberships if member.role == ProductMember.Role.MANAGER]
    connecting = [each for each in memberships if each in managing or each.may_manage_connections]
    working = [each for each in memberships if each in managing or each.may_work_on_accounts]
    return Access(
        *(
            ProductSet(frozenset(member.product_id for member in members))
            for members in (memberships, managing, connecting, working)
        )
    )


def without_django_scripts(media: Any) -> Media:
    """The media without Django's scripts, 360 KB, of which our pages need few. What needs one, such
    as a list with actions, adds it."""
    # A script is its path, or an object that has one.
    scripts = [
        script
        for script in media._js
        if not str(getattr(script, "path", script)).startswith("admin/js/")
    ]
    return Media(css=media._css, js=scripts)


ACTIONS = Media(js=["admin/js/actions.js"])


class RelativeTime:
    """A column of a list that shows a time relative to now, and sorts like its field."""

    def __init__(self, field: "Field[Any, Any]") -> None:
        self.__name__ = self.admin_order_field = field.name
        self.short_description = str(field.verbose_name)

    def __call__(self, row: Any) -> SafeString | str:
        at = getattr(row, self.__name__)
        return format_ago(at, timezone.now()) if at else "–"


class ProductScopedAdmin(TrailingAdmin, BoundedLookups):
    """An admin of rows that belong to a product, open to the product's members only.

    Lists, pages, history, autocompletes, and actions all start from ``get_queryset``, so a row that
    it leaves out is unreachable. A member sees every row of the product. ``changeable_products``
    says who changes rows; by default, managers do. An action that requires a permission other than
    "view" gets changeable rows only. Foreign keys in forms offer changeable rows only.
    """

    # The lookup from a row to its product.
    product_path: ClassVar[str] = "product"
    # What a list says that has no rows, and what its rows are for.
    empty_text: ClassVar[str] = ""
    # Facet counts would read whole tables.
    show_facets = admin.ShowFacets.NEVER

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        """The columns, with times relative to now."""
        return [self._relative(column) for column in super().get_list_display(request)]

    def _relative(self, column: Any) -> Any:
        fields = {field.name: field for field in self.opts.concrete_fields}
        is_time = isinstance(column, str) and isinstance(fields.get(column), DateTimeField)
        return RelativeTime(fields[column]) if is_time else column

    @property
    def media(self) -> Media:
        """The styles and scripts of our pages."""
        own = Media(
            css={"all": ["engagement/admin.css"]},
            js=[deferred_script("engagement/copy.js")],
        )
        return without_django_scripts(super().media) + own

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None)
        if context and context.get("action_form"):
            context["media"] += ACTIONS
        return response

    # --- Who may what -------------------------------------------------------------------------

    def changeable_products(self, request: HttpRequest) -> ProductSet:
        """The products in which the login may add, change, and delete rows of this kind."""
        return request_access(request).managed

    def may_change(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the login may change *obj*, or any row if no *obj* is given."""
        products = self.changeable_products(request)
        return bool(products) if obj is None else self.product_id_of(obj) in products

    def product_id_of(self, obj: Any) -> int | None:
        """The id of the row's product."""
        *steps, last = self.product_path.split("__")
        for step in steps:
            obj = getattr(obj, step)
        product_id: int | None = obj.pk if last == "pk" else getattr(obj, f"{last}_id")
        return product_id

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request_access(request).visible)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Any *obj* comes from the queryset below.
        return bool(request_access(request).visible)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.may_change(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_change(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_change(request, obj)

    # --- Rows and choices ---------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return request_access(request).visible.filter_rows(
            super().get_queryset(request), self.product_path
        )

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        """The row, which the page's navigation then knows, too."""
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            request.META[_ROW] = (row, self)
        return row

    def filter_changeable(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return self.changeable_products(request).filter_rows(rows, self.product_path)

    def response_action(  # type: ignore[override]  # the stubs are of a later Django
        self, request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        if self._is_change(request):
            queryset = self.filter_changeable(request, queryset)
        return super().response_action(request, queryset)

    def _is_change(self, request: HttpRequest) -> bool:
        action = self.get_actions(request).get(request.POST.get("action", ""))
        permissions = getattr(action[0], "allowed_permissions", ()) if action else ()
        return bool(set(permissions) - {"view"})

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        model = db_field.remote_field.model
        if model is Product:
            products = visible_products(request.user)
            kwargs.setdefault(
                "queryset", self.changeable_products(request).filter_rows(products, "pk")
            )
        elif self.admin_site.is_registered(model):
            related_admin = self.admin_site.get_model_admin(model)
            if isinstance(related_admin, ProductScopedAdmin):
                rows = related_admin.filter_changeable(request, related_admin.get_queryset(request))
                kwargs.setdefault("queryset", rows)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_dbfield(
        self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> Any:
        return _plain(super().formfield_for_dbfield(db_field, request, **kwargs))

    def get_action_choices(
        self, request: HttpRequest, default_choices: Any = (("", "Choose an action"),)
    ) -> list[tuple[str, str]]:
        return super().get_action_choices(request, list(default_choices))


def _plain(formfield: Any) -> Any:
    """The field without Django's icons, because the related row has its own page to add or edit it,
    and with words for no choice."""
    if formfield and isinstance(formfield.widget, RelatedFieldWidgetWrapper):
        formfield.widget = formfield.widget.widget
    nothing = "Choose one" if formfield and formfield.required else "None"
    if isinstance(formfield, ModelChoiceField) and formfield.empty_label:
        formfield.empty_label = nothing
    elif isinstance(formfield, TypedChoiceField):
        choices: Any = formfield.choices
        formfield.choices = [(value, label if value != "" else nothing) for value, label in choices]
    return formfield


def deferred_script(path: str) -> Any:  # the stubs know scripts as texts only
    """A script for ``Media`` that runs after the page is parsed. The admin puts it in the head."""
    return Script(path, defer=True)


class NamedFieldsFormSet(BaseInlineFormSet):  # type: ignore[type-arg]
    """Names each field for screen readers: a table has a label for each column only."""

    def add_fields(self, form: Any, index: int | None) -> None:
        super().add_fields(form, index)
        row = self.row_name(form)
        for field in form:
            if not field.is_hidden:
                name = f"{field.label} of {row}" if row else str(field.label)
                field.field.widget.attrs.setdefault("aria-label", name)

    def row_name(self, form: Any) -> str:
        """What the row is called. Empty for a new one."""
        return str(form.instance) if form.instance.pk else ""


class TabularInline(PlainInline):
    """Rows on their parent's page. The parent's permissions apply to them."""

    formset = NamedFieldsFormSet
    # An empty row is on the page, so none has to be added by a script.
    extra = 1

    @property
    def media(self) -> Media:
        return without_django_scripts(super().media)

    def formfield_for_dbfield(
        self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> Any:
        return _plain(super().formfield_for_dbfield(db_field, request, **kwargs))

    def _may_change(self, request: HttpRequest, obj: Any) -> bool:
        page = self.admin_site.get_model_admin(self.parent_model)
        return page.has_change_permission(request, obj) if obj else page.has_add_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        page = self.admin_site.get_model_admin(self.parent_model)
        return page.has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_change(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_change(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_change(request, obj)


class ProductFilter(admin.RelatedFieldListFilter):
    """Filters a list by the products that the login may see."""

    # The side bar offers the same choice.
    is_in_navigation = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.empty_value_display = mark_safe("Unknown")

    def field_choices(
        self, field: "Field[Any, Any]", request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, Any]]:
        self._offers_unknown = field.null and sees_all_products(request.user)
        products = visible_products(request.user)
        return [(str(product.pk), product.name) for product in products]

    @property
    def include_empty_choice(self) -> bool:
        return self._offers_unknown


class ReadOnly(Options):
    """Makes an admin or inline read-only."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class SuperusersOnly(Options):
    """Opens an admin to superusers only, whatever a login's permissions say."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return sees_all_products(request.user)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return sees_all_products(request.user)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return sees_all_products(request.user)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return sees_all_products(request.user)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return sees_all_products(request.user)
