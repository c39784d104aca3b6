"""The four values with which a product is connected, as a person enters them."""

from typing import TYPE_CHECKING, Any, TypeAlias

from django import forms

from marketplace import client, connecting
from marketplace.connecting import ConnectionDetails, DetailsRejected, VerifiedDetails
from marketplace.models import Connection

if TYPE_CHECKING:
    # Django's forms take a type parameter in their type stubs only.
    ModelForm: TypeAlias = forms.ModelForm[Connection]
else:
    ModelForm = forms.ModelForm

# Long enough for what the marketplace may ever issue, short enough for a header.
MAX_LENGTH = 2000


class ConnectionForm(ModelForm):
    """Valid when the marketplace has confirmed the values; ``checked`` then says with what.

    All four are entered whenever something is to change: the stored token is for syncs alone, and
    nobody can use it with other details. The token is never rendered back.
    """

    user_name = forms.CharField(
        label="User name",
        max_length=254,
        help_text="The e-mail address of the marketplace account.",
    )
    api_token = forms.CharField(
        label="API token",
        max_length=MAX_LENGTH,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "vTextField"}),
        help_text="Made in the account’s security settings; the account’s password does not work. "
        "It is stored encrypted and never shown again.",
    )
    vendor_id = forms.CharField(
        label="Vendor ID",
        max_length=MAX_LENGTH,
        help_text="The number at the end of the vendor management page’s address. "
        "The whole address does as well.",
    )
    product_id = forms.CharField(
        label="Product ID",
        max_length=MAX_LENGTH,
        help_text="The app’s productId in the marketplace, like "
        "9d71209f-f2d4-5522-8742-716b66c6574f; neither its key nor its name.",
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
                user_name=self.instance.user_name,
                vendor_id=self.instance.vendor_id,
                product_id=str(self.instance.app_product_id),
            )
        if self.is_bound:
            self.fields["api_token"].help_text = "Enter it again: it is never shown, not even here."
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
            self.add_error(rejected.field, rejected.sentence)
        return cleaned
