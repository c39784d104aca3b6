"""The page on which the owner of an email address agrees to notifications."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

from notifications import verification


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
