"""The pages on which the owner of an email address agrees to notifications, and ends a digest."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from notifications import verification
from notifications.digests import links


@method_decorator(never_cache, name="dispatch")
class ConfirmEmailView(View):
    """Needs no login: the link proves that the email was received. Only the button confirms,
    because mail scanners open links."""

    def get(self, request: HttpRequest, token: str) -> HttpResponse:
        destination = verification.read_token(token)
        context = {"destination": destination, "is_confirmed": False}
        status = 200 if destination else 404
        return render(request, "notifications/confirm.html", context, status=status)

    def post(self, request: HttpRequest, token: str) -> HttpResponse:
        destination = verification.read_token(token)
        if destination is None:
            return self.get(request, token)
        verification.activate(destination.pk, timezone.now())
        context = {"destination": destination, "is_confirmed": True}
        return render(request, "notifications/confirm.html", context)


@method_decorator([never_cache, csrf_exempt], name="dispatch")
class UnsubscribeView(View):
    """Ends a digest, without a login: the signed link proves that the email was received. Mail
    programs send the POST themselves (RFC 8058), so it needs no token of a form, no cookie, and no
    redirect. GET changes nothing, because mail scanners open links."""

    def get(self, request: HttpRequest, token: str) -> HttpResponse:
        digest = links.read_token(token)
        context = {"digest": digest, "is_over": digest is not None and not digest.is_enabled}
        status = 200 if digest else 404
        return render(request, "notifications/unsubscribe.html", context, status=status)

    def post(self, request: HttpRequest, token: str) -> HttpResponse:
        digest = links.read_token(token)
        if digest is not None:
            links.unsubscribe(digest, timezone.now())
        return self.get(request, token)
