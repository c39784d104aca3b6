"""Invites in the admin: managers invite to their products, superusers also make logins.

Nobody chooses another's password: the person who opens the link does.
"""

import logging
from datetime import timedelta
from smtplib import SMTPException
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import User as AdminUser
from django.core.mail import send_mail
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from access.logins import invites
from access.models import Invite
from core.page_secrets import mark_secret
from engagement.models import Product, ProductMember

logger = logging.getLogger(__name__)

ROLE_HELP = (
    "A viewer sees everything except secrets, and changes nothing. A manager also sees secrets and "
    "makes changes."
)
LIFETIMES = {1: "1 day", 7: "7 days", 30: "30 days"}


class InviteForm(forms.Form):
    """Whom to invite, with which role, and for how long the link works."""

    email = forms.EmailField(
        required=False,
        help_text="Optional. The link is sent there if the service has a mail server.",
    )
    role = forms.ChoiceField(
        choices=ProductMember.Role.choices,
        initial=ProductMember.Role.VIEWER,
        help_text=ROLE_HELP,
    )
    days = forms.TypedChoiceField(
        label="Expires after", coerce=int, choices=list(LIFETIMES.items()), initial=7
    )

    def create(self, by: AdminUser, product: Product | None) -> tuple[Invite, str]:
        """The invite, and its token."""
        return invites.create(
            by,
            timezone.now(),
            product=product,
            role=self.cleaned_data.get("role", ProductMember.Role.VIEWER),
            email=self.cleaned_data["email"],
            lifetime=timedelta(days=self.cleaned_data["days"]),
        )


class LoginInviteForm(InviteForm):
    """An invite of a superuser, to a product or only to make a login."""

    product = forms.ModelChoiceField(
        Product.objects.filter(deletion_requested_at=None),
        required=False,
        empty_label="None",
        help_text="Without one, the new login sees no product until it becomes a member.",
    )
    field_order = ("email", "product", "role", "days")


def invite_url(request: HttpRequest, token: str) -> str:
    """The link of the invite with this token."""
    return request.build_absolute_uri(f"{reverse('invite')}?{urlencode({'token': token})}")


def share(request: HttpRequest, invite: Invite, token: str) -> dict[str, Any]:
    """Send the link if there is an address and a mail server. Returns what the page shows."""
    url = invite_url(request, token)
    is_sent = False
    problem = ""
    if invite.email and settings.HAS_EMAIL:
        try:
            send_mail(
                _subject(invite), _body(invite, url), settings.DEFAULT_FROM_EMAIL, [invite.email]
            )
            is_sent = True
            invites.note_mailed(invite)
        except (SMTPException, OSError) as error:
            # The text of the error may quote the address or the message.
            logger.warning("An invite could not be sent: %s", type(error).__name__)
            problem = "The mail server did not take the email. Copy the link and send it yourself."
    if not is_sent:
        # The page shows the link.
        mark_secret(request)
    return {"invite": invite, "url": "" if is_sent else url, "is_sent": is_sent, "failed": problem}


def _subject(invite: Invite) -> str:
    if invite.login:
        return "Choose a new password"
    # A subject is one line.
    name = " ".join(invite.product.name.split()) if invite.product else ""
    return f"Invitation to {name}" if name else "Invitation to the Engagement Data Service"


def _body(invite: Invite, url: str) -> str:
    what = f"You are invited to {invite.product}." if invite.product else "You are invited."
    if invite.login:
        what = f"Choose a new password for your login {invite.login}."
    return (
        f"{what}\n\nOpen this link:\n\n{url}\n\n"
        f"It works once, until {invite.expires_at:%Y-%m-%d %H:%M} UTC. If you do not expect this "
        "email, ignore it.\n"
    )


def listed_invites(product: Product) -> list[Invite]:
    """The product's invites that still work."""
    rows = invites.open_invites(timezone.now()).filter(product=product)
    return list(rows.select_related("created_by"))
