"""Read tokens in the admin."""

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from access.admin.credential_forms import CredentialForm
from access.admin.credentials import CredentialAdmin, CredentialInline
from access.admin.products import ProductAdmin
from access.pages.place import find_place
from access.pages.scoping import sees_all_products
from access.trail.models_followed import follow
from engagement.models import Workspace
from readapi.models import ApiToken, validate_network

follow(
    ApiToken,
    "read token",
    ("name", "owner__username", "purpose", "expires_at", "revoked_at", *ApiToken.RIGHTS),
)


class WorkspacesField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    """Workspaces of one product, which the page names."""

    def label_from_instance(self, obj: Any) -> str:
        return str(obj.name)


class ApiTokenForm(CredentialForm):
    workspaces = WorkspacesField(
        Workspace.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Only these workspaces. None chosen: all of the product.",
    )

    # Those of the token's product.
    offered_workspaces: ClassVar[QuerySet[Workspace]] = Workspace.objects.none()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if field := self.fields.get("workspaces"):
            field.queryset = self.offered_workspaces  # type: ignore[attr-defined]
            field.initial = self.offered_workspaces.filter(pk__in=self.instance.workspace_ids or ())

    def clean_networks(self) -> list[str] | None:
        networks: list[str] = self.cleaned_data["networks"] or []
        for network in networks:
            # Django says which of them is wrong, but not what is wrong with it.
            validate_network(network)
        return networks or None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("manages_hooks"):
            # A process of the release before, which knows no hook tokens, refuses it, too.
            nothing = {"reads": ApiToken.Reads.NOTHING, "may_use_mcp": False}
            cleaned |= nothing | {"may_read_metrics": False}
        # An unchanged choice may have deleted workspaces. Without them it would mean all.
        if "workspaces" in self.changed_data and "workspaces" in cleaned:
            workspaces = cleaned["workspaces"]
            product = cleaned.get("product") or self.instance.product
            if any(workspace.product_id != product.pk for workspace in workspaces):
                self.add_error("workspaces", "Choose workspaces of the token's product.")
            self.instance.workspace_ids = sorted(each.pk for each in workspaces) or None
        return cleaned


@admin.register(ApiToken)
class ApiTokenAdmin(CredentialAdmin):
    empty_text = "There are no read tokens yet. Programs read scores with one."
    usage = "Use it in the tools that read this product's scores."
    form = ApiTokenForm
    EDITED: ClassVar[list[str]] = [
        *CredentialAdmin.EDITED,
        *("reads", "hides_user_traits", "workspaces", "may_use_mcp", "may_read_metrics"),
        *("manages_hooks", "networks"),
    ]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fields = super().get_fields(request, obj)
        if obj is not None:
            place = fields.index("last_used_at") + 1
            return [*fields[:place], "last_used_from", *fields[place:]]
        left_out = set() if sees_all_products(request.user) else {"may_read_metrics"}
        if self._named_product(request) is None:
            # Each product has its own workspaces.
            left_out.add("workspaces")
        return [name for name in fields if name not in left_out]

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        product_id = obj.product_id if obj else self._named_product(request)
        form.offered_workspaces = Workspace.objects.filter(product=product_id)
        return form

    def _named_product(self, request: HttpRequest) -> int | None:
        """The product for which a token is added, if the address names it."""
        number = find_place(request).product_id
        return number if number in self.changeable_products(request) else None

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fields = super().get_readonly_fields(request, obj)
        if obj is None:
            return fields
        may_grant = sees_all_products(request.user)
        return [*fields, "last_used_from", *([] if may_grant else ["may_read_metrics"])]


class ApiTokenInline(CredentialInline):
    model = ApiToken


ProductAdmin.add_inline(ApiTokenInline)
