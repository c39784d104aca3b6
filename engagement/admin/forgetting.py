"""The button that forgets a user or an account, and the page that asks first."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from engagement import tasks
from engagement.admin.listing import LargeTableAdmin, PageAction
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting


class ForgettableAdmin(LargeTableAdmin):
    """A list to look at, whose rows can be forgotten by whoever manages their product."""

    scope: ClassVar[SubjectScope]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.forget_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_forget"
        return [path("<path:object_id>/forget/", view, name=name), *super().get_urls()]

    def page_actions(self, request: HttpRequest, obj: Any) -> Sequence[PageAction]:
        if not self.may_change(request, obj):
            return []
        return [PageAction("Forget", self._url("forget", obj.pk))]

    def forget_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        if not self.may_change(request, row):
            raise PermissionDenied
        if request.method != "POST":
            return self._ask_before_forgetting(request, row)
        subject = SubjectRef(row.product_id, self.scope, row.external_id)
        self._forget(request, subject, suppress="suppress" in request.POST)
        # The history must not keep the id either, so it is the product's.
        self.log_change(request, row.product, f"Forgot a {self.scope.value} on request.")
        return redirect(self._url("changelist"))

    def _ask_before_forgetting(self, request: HttpRequest, row: Any) -> HttpResponseBase:
        context = {
            **self.admin_site.each_context(request),
            "title": f"Forget this {self.scope.value}?",
            "opts": self.opts,
            "media": self.media,
            "row": row,
            "is_account": self.scope == SubjectScope.ACCOUNT,
            "back": self._url("change", row.pk),
        }
        return TemplateResponse(request, "admin/engagement/forget_confirmation.html", context)

    def _forget(self, request: HttpRequest, subject: SubjectRef, suppress: bool) -> None:
        forgetting.forget(subject, timezone.now(), suppress=suppress)
        tasks.request_clearing()
        said = f"The {self.scope.value} is forgotten. What is left of their events goes within "
        said += "minutes, and scores follow."
        if suppress:
            said += " Later messages that name them are dropped."
        self.message_user(request, said, messages.SUCCESS)

    def _url(self, name: str, *arguments: Any) -> str:
        named = f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_{name}"
        return reverse(named, args=arguments)
