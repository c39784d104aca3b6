"""The button that forgets a user or account, and its confirmation page."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from access.pages.listing import LargeTableAdmin
from access.pages.pages import ExtraView, PageAction
from access.trail import entries
from engagement import tasks
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting


class ForgettableAdmin(LargeTableAdmin):
    """A read-only list whose rows the managers of their product can forget."""

    scope: ClassVar[SubjectScope]
    extra_views: ClassVar[Sequence[ExtraView]] = [ExtraView("forget", permission="forget")]

    def has_forget_permission(self, request: HttpRequest, obj: Any) -> bool:
        return self.may_change(request, obj)

    def page_actions(self, request: HttpRequest, obj: Any) -> Sequence[PageAction]:
        if not self.has_forget_permission(request, obj):
            return []
        return [PageAction("Forget", self.view_url("forget", obj), is_danger=True)]

    def forget_view(self, request: HttpRequest, row: Any) -> HttpResponseBase:
        if request.method != "POST":
            return self.render_page(
                request,
                "admin/engagement/forget_confirmation.html",
                f"Forget this {self.scope.value}?",
                row=row,
                is_account=self.scope == SubjectScope.ACCOUNT,
                back=self.view_url("change", row),
            )
        subject = SubjectRef(row.product_id, self.scope, row.external_id)
        self._forget(request, subject, suppress="suppress" in request.POST)
        entries.record_forgotten(entries.actor_of(request), self.scope.value, row.product_id)
        return redirect(self.view_url("changelist"))

    def _forget(self, request: HttpRequest, subject: SubjectRef, suppress: bool) -> None:
        forgetting.forget(subject, timezone.now(), suppress=suppress)
        tasks.request_clearing()
        text = (
            f"The {self.scope.value} is deleted. Remaining events are deleted within minutes, and "
            "scores follow."
        )
        if suppress:
            text += f" Later messages that mention this {self.scope.value} are dropped."
        self.message_user(request, text, messages.SUCCESS)
