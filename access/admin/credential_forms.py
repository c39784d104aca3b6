"""The form of a key or token: who answers for it, what it is for, and until when it is valid."""

from datetime import UTC, datetime, time
from typing import Any

from django import forms
from django.contrib.auth.models import User as AdminUser
from django.db.models import Q
from django.utils import timezone

from engagement.models import Credential


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]
    """``valid_until`` is the last day, in UTC."""

    valid_until = forms.DateField(
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="The last day, in UTC. Empty: it does not expire. The home page reminds you 30 "
        "and 7 days before.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        credential: Credential = self.instance
        if credential.expires_at:
            self.fields["valid_until"].initial = _last_day(credential.expires_at)
        if owner := self.fields.get("owner"):
            # All names would show the logins of other products.
            owner.queryset = possible_owners(credential)  # type: ignore[attr-defined]

    def clean_valid_until(self) -> Any:
        day = self.cleaned_data["valid_until"]
        if (
            day
            and "valid_until" in self.changed_data
            and day < timezone.now().astimezone(UTC).date()
        ):
            raise forms.ValidationError("Enter today or a later day.")
        return day

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if "valid_until" in self.changed_data and "valid_until" in cleaned:
            day = cleaned["valid_until"]
            self.instance.expires_at = datetime.combine(day, time.max, UTC) if day else None
        return cleaned


def possible_owners(credential: Credential) -> Any:
    """The product's members, superusers, and who is the owner now."""
    members = Q(products=credential.product_id) if credential.product_id else Q(pk__in=[])
    owners = members | Q(is_superuser=True) | Q(pk=credential.owner_id)
    return AdminUser.objects.filter(owners, is_active=True).distinct().order_by("username")


def _last_day(expires_at: datetime) -> Any:
    return expires_at.astimezone(UTC).date()
