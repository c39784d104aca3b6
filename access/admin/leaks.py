"""The page for a key or token that somebody found where it does not belong: whose it is, and a
button that revokes it. The page does not show what was pasted, and nothing stores or logs it."""

from typing import Any, NamedTuple

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.debug import sensitive_post_parameters

from access.pages.history import record_row
from access.pages.pages import PageAdmin
from access.pages.scoping import ProductScopedAdmin
from access.trail import entries
from access.trail.entries import Action
from core import credentials
from engagement.models import Credential

MALFORMED = (
    "This is no key or token of the service, or it is cut off or mistyped: the last six of its "
    "characters are a checksum, and they do not match."
)
UNKNOWN = (
    "This has the form of a key or token, but belongs to none of the products that you manage. If "
    "it is another team's, ask a superuser to look it up."
)


class LeakedForm(forms.Form):
    # No value of it is rendered again.
    secret = forms.CharField(
        label="Key or token",
        max_length=200,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="It begins with edk_, eds_, or edf_.",
    )


class Finding(NamedTuple):
    """A credential with what the page says about it."""

    credential: Credential
    kind: str
    state: str
    url: str
    # Empty if there is nothing to revoke.
    revoke_url: str


@sensitive_post_parameters("secret")
def leak_view(request: HttpRequest, page: PageAdmin) -> HttpResponseBase:
    form = LeakedForm(request.POST or None)
    finding = None
    if request.method == "POST" and form.is_valid():
        secret = form.cleaned_data["secret"].strip()
        finding = _find(request, secret)
        _record(request, finding)
        if finding is None:
            is_ours = any(
                credentials.is_well_formed(secret, model.PREFIX)
                for model in Credential.__subclasses__()
            )
            form.add_error("secret", UNKNOWN if is_ours else MALFORMED)
    return page.render_page(
        request,
        "admin/engagement/leak.html",
        "Find a leaked key or token",
        form=form,
        finding=finding,
        back=page.view_url("changelist"),
    )


def _find(request: HttpRequest, secret: str) -> Finding | None:
    digest = credentials.digest(secret)
    for model in Credential.__subclasses__():
        rows = _page_of(model)
        matches = rows.filter_changeable(request, rows.get_queryset(request))
        credential = matches.filter(digest=digest).select_related("product", "owner").first()
        if credential is not None:
            return Finding(
                credential,
                str(model._meta.verbose_name),
                rows.state(credential),
                rows.view_url("change", credential),
                "" if credential.revoked_at else rows.view_url("revoke", credential),
            )
    return None


def _record(request: HttpRequest, finding: Finding | None) -> None:
    """Note in the trail who searched, and what they learned of."""
    if finding is None:
        note = "Searched for a leaked one, which is none of the products that the login manages."
        actor = entries.actor_of(request)
        entries.record(actor, Action.SECRET_READ, "key or token", note=note)
    else:
        note = "Searched for it as a leaked one."
        record_row(request, Action.SECRET_READ, finding.credential, note)


def _page_of(model: type[Model]) -> Any:
    page = admin.site.get_model_admin(model)
    assert isinstance(page, ProductScopedAdmin)
    return page
