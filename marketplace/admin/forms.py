"""The form for the four values that connect a product."""

from typing import TYPE_CHECKING, Any, TypeAlias

from django import forms

from marketplace import client, connecting, user_names
from marketplace.connecting import ConnectionDetails, DetailsRejected, VerifiedDetails
from marketplace.models import Connection

if TYPE_CHECKING:
    # Only the type stubs of Django's forms take a type parameter.
    ModelForm: TypeAlias = forms.ModelForm[Connection]
else:
    ModelForm = forms.ModelForm

# Longer than anything the marketplace issues, and short enough for a header.
MAX_LENGTH = 2000


class ConnectionForm(ModelForm):
    """Validates the details with the marketplace; ``verified_details`` is the result.

    Every change needs all four values: only syncs use the stored token, and nobody can combine it
    with other details. The credentials are never rendered.
    """

    user_name = forms.CharField(
        label="User name",
        max_length=254,
        help_text="The email address of the marketplace account.",
    )
    api_token = forms.CharField(
        label="API token",
        max_length=MAX_LENGTH,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "vTextField"}),
        help_text="Create it in the account’s security settings. The account’s password does not "
        "work. The token is stored encrypted and never shown again.",
    )
    vendor_id = forms.CharField(
        label="Vendor ID",
        max_length=MAX_LENGTH,
        help_text="The number at the end of the vendor management page’s URL, or the URL itself.",
    )
    product_id = forms.CharField(
        label="Product ID",
        max_length=MAX_LENGTH,
        help_text="The app’s productId in the marketplace, such as "
        "9d71209f-f2d4-5522-8742-716b66c6574f. Its key or name does not work.",
    )

    verified_details: VerifiedDetails

    class Meta:
        model = Connection
        fields = ["product"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["product"].disabled = True
        if self.instance.state == Connection.State.ACTIVE:
            self.initial.update(
                vendor_id=self.instance.vendor_id,
                product_id=str(self.instance.app_product_id),
            )
            shown = user_names.mask(self.instance.user_name)
            self.fields["user_name"].widget.attrs["placeholder"] = shown
        if self.is_bound:
            self.fields["api_token"].help_text = "Enter the token again: it is never shown."
        for name in ("user_name", "vendor_id", "product_id"):
            self.fields[name].widget.attrs.update({"class": "vTextField", "autocomplete": "off"})

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        details = ConnectionDetails(
            **{name: cleaned[name] for name in ConnectionDetails.__dataclass_fields__}
        )
        try:
            self.verified_details = connecting.verify_details(details, client.create_client)
        except DetailsRejected as rejected:
            self.add_error(rejected.field, rejected.message)
        return cleaned
