"""The form for the four values that connect a product."""

from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

from django import forms
from django.utils import timezone

from engagement.models import Seats
from marketplace import connecting, user_names
from marketplace.connecting import (
    ConnectionDetails,
    ConnectionOptions,
    DetailsRejected,
    VerifiedDetails,
)
from marketplace.models import Connection
from marketplace.source import client

if TYPE_CHECKING:
    # Only the type stubs of Django's forms take a type parameter.
    ModelForm: TypeAlias = forms.ModelForm[Connection]
else:
    ModelForm = forms.ModelForm

# Longer than anything the marketplace issues, and short enough for a header.
MAX_LENGTH = 2000
MAX_TOKEN_DAYS = 366


class ConnectionForm(ModelForm):
    """Validates the details with the marketplace; ``verified_details`` is the result.

    Every change needs all four values: only syncs use the stored token, and nobody can combine it
    with other details. The credentials are never rendered.
    """

    user_name = forms.CharField(
        label="User name",
        max_length=254,
        help_text="The email address of the marketplace account. Use an account of its own for "
        "this service. Of the vendor’s permissions, give it only “View sales reports” and “View "
        "all other reports”.",
    )
    api_token = forms.CharField(
        label="API token",
        max_length=MAX_LENGTH,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "vTextField"}),
        help_text="Create it in the account’s security settings, without scopes: tokens with "
        "scopes or of a service account do not work, and neither does the account’s password. The "
        "token is stored encrypted and never shown again.",
    )
    token_expires_on = forms.DateField(
        label="Token expires on",
        required=False,
        widget=forms.DateInput(format="%Y-%m-%d", attrs={"type": "date"}),
        help_text="Optional. A notice reminds you 30 and 7 days before. The marketplace shows the "
        "date when you create the token: 1 to 365 days later.",
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
    includes_staff_licenses = forms.BooleanField(
        label="Include Atlassian’s own licenses",
        required=False,
        help_text="Licenses that Atlassian uses itself. They are no customers, so they are left "
        "out by default.",
    )

    verified_details: VerifiedDetails

    class Meta:
        model = Connection
        fields = ["product"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["product"].disabled = True
            self.initial["includes_staff_licenses"] = self.instance.includes_staff_licenses
        else:
            self._offer_unconnected_products()
        if self.instance.state == Connection.State.ACTIVE:
            self.initial.update(
                vendor_id=self.instance.vendor_id,
                product_id=str(self.instance.app_product_id),
                token_expires_on=self._unexpired_date(),
            )
            masked = user_names.mask(self.instance.user_name)
            self.fields["user_name"].widget.attrs["placeholder"] = masked
        if self.is_bound:
            self.fields["api_token"].help_text = "Enter the token again: it is never shown."
        for name in ("user_name", "vendor_id", "product_id"):
            self.fields[name].widget.attrs.update({"class": "vTextField", "autocomplete": "off"})

    def _offer_unconnected_products(self) -> None:
        field = self.fields["product"]
        assert isinstance(field, forms.ModelChoiceField) and field.queryset is not None
        field.queryset = field.queryset.filter(marketplace_connection=None)
        if not field.queryset.exists():
            field.help_text = "Each of your products has a connection. Open it to change it."

    def _unexpired_date(self) -> date | None:
        stored = self.instance.token_expires_on
        return stored if stored is not None and stored >= timezone.now().date() else None

    def clean_token_expires_on(self) -> date | None:
        expires_on: date | None = self.cleaned_data["token_expires_on"]
        if expires_on is None:
            return None
        days = (expires_on - timezone.now().date()).days
        if days < 0:
            raise forms.ValidationError("This day is over. Create a new token and enter its date.")
        if days > MAX_TOKEN_DAYS:
            raise forms.ValidationError(
                "A token is valid for a year at most. Check the year of the date."
            )
        return expires_on

    def options(self) -> ConnectionOptions:
        return ConnectionOptions(
            self.cleaned_data["token_expires_on"], self.cleaned_data["includes_staff_licenses"]
        )

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


class SeatsForm(forms.Form):
    """Whom the seats of a product's licenses are for."""

    licensed_for = forms.ChoiceField(
        label="Licensed for",
        choices=[(seats.value, seats.label) for seats in (Seats.HOST, Seats.APP)],
        help_text="Atlassian usually bills an app by the users of its host product, whether they "
        "use the app or not. Then many seats without an active user are usual, and the insights "
        "“Seats unused” and “More users than seats” are off. Choose the users of the app if each "
        "of them needs a seat.",
    )
    has_site_users = forms.BooleanField(
        label="A site counts as one user",
        required=False,
        help_text="Choose this if your app sends one user for a whole site. Active users are no "
        "people then, so there are neither insights about seats nor a seat utilization.",
    )
