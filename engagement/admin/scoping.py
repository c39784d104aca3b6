"""Who sees what: superusers everything, other staff the products they are a member of."""

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from django.contrib import admin
from django.contrib.admin.options import BaseModelAdmin, InlineModelAdmin
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.auth.models import User as AdminUser
from django.db.models import Field, ForeignKey, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest
from django.utils.safestring import mark_safe

from engagement.models import Product

if TYPE_CHECKING:
    # Django's admin classes take a type parameter in their type stubs only.
    ModelAdmin: TypeAlias = admin.ModelAdmin[Any]
    TabularInline: TypeAlias = admin.TabularInline[Any, Any]
    Inline: TypeAlias = InlineModelAdmin[Any, Any]
    Options: TypeAlias = BaseModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin
    TabularInline = admin.TabularInline
    Inline = InlineModelAdmin
    Options = object


def sees_everything(user: AbstractBaseUser | AnonymousUser) -> bool:
    return isinstance(user, AdminUser) and user.is_active and user.is_superuser


def visible_products(user: AbstractBaseUser | AnonymousUser) -> QuerySet[Product]:
    """The products whose pages *user* may open, as far as their permissions go."""
    if sees_everything(user):
        return Product.objects.all()
    return Product.objects.filter(members=user.pk)


class ProductScopedAdmin(ModelAdmin):
    """An admin of rows that belong to a product, closed to whoever is not one of its members.

    Everything that the admin offers (lists, pages, history, autocompletes, actions) starts from
    ``get_queryset``, so what is left out there exists nowhere. The choices of a form's foreign
    keys come from the same place in the admin of the model that they point to.
    """

    # The look-up that leads from a row to its product.
    product_path: ClassVar[str] = "product"
    # Counting each filter's rows would read whole tables.
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ["engagement/admin.css", "engagement/charts.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        if sees_everything(request.user):
            return rows
        return rows.filter(**{f"{self.product_path}__in": visible_products(request.user)})

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        model = db_field.remote_field.model
        if self.admin_site.is_registered(model):
            related = self.admin_site.get_model_admin(model)
            if isinstance(related, ProductScopedAdmin):
                kwargs.setdefault("queryset", related.get_queryset(request))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_dbfield(
        self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> Any:
        formfield = super().formfield_for_dbfield(db_field, request, **kwargs)
        if formfield and isinstance(formfield.widget, RelatedFieldWidgetWrapper):
            # What a form points to has a page of its own; a list to choose from says enough.
            formfield.widget = formfield.widget.widget
        return formfield


class ProductFilter(admin.RelatedFieldListFilter):
    """Filters a list by product and offers only those that the person may see."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.empty_value_display = mark_safe("Unknown")

    def field_choices(
        self, field: "Field[Any, Any]", request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, Any]]:
        self._offers_unknown = field.null and sees_everything(request.user)
        products = visible_products(request.user)
        return [(str(product.pk), product.name) for product in products]

    @property
    def include_empty_choice(self) -> bool:
        return self._offers_unknown


class ReadOnly(Options):
    """Makes an admin or inline one to look at: nothing is added, changed or deleted."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class SuperusersOnly(Options):
    """Closes an admin to everybody else, whatever their permissions say."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return sees_everything(request.user)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return sees_everything(request.user)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return sees_everything(request.user)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return sees_everything(request.user)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return sees_everything(request.user)
