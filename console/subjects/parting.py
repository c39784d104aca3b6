"""The page that parts an id from a user: what leaves, and how far an earlier one has come."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from access.pages.listing import LargeTableAdmin
from access.pages.pages import ExtraView, PageAction
from access.trail import entries
from console.subjects import subject_details
from engagement import tasks
from engagement.models import PartRequest, User
from engagement.recording import parting
from engagement.recording.parting import PartError, Preview


class PartableAdmin(LargeTableAdmin):
    """A list of users whose ids a superuser can part."""

    extra_views: ClassVar[Sequence[ExtraView]] = [ExtraView("part", permission="part")]

    def has_part_permission(self, request: HttpRequest, obj: Any) -> bool:
        return bool(request.user.is_superuser)

    def page_actions(self, request: HttpRequest, obj: Any) -> Sequence[PageAction]:
        actions = super().page_actions(request, obj)
        if not self.has_part_permission(request, obj) or not subject_details.other_ids(obj):
            return actions
        return [PageAction("Part an id", self.view_url("part", obj)), *actions]

    def part_view(self, request: HttpRequest, user: User) -> HttpResponseBase:
        ids = sorted([user.external_id, *subject_details.other_ids(user)])
        chosen_id = request.POST.get("id") or request.GET.get("id")
        try:
            if request.method == "POST":
                return self._part(request, user, chosen_id if chosen_id in ids else "")
            leaving = _preview(user, chosen_id) if chosen_id in ids else []
        except PartError as error:
            self.message_user(request, str(error), messages.WARNING)
            return redirect(self.view_url("change", user))
        return self.render_page(
            request,
            "admin/engagement/part.html",
            "Part an id from this user",
            row=user,
            ids=ids if len(ids) > 1 else [],
            chosen_id=chosen_id,
            leaving=leaving,
            back=self.view_url("change", user),
        )

    def _part(self, request: HttpRequest, user: User, chosen_id: str) -> HttpResponseBase:
        leaving = parting.part(user.product_id, chosen_id, timezone.now())
        tasks.request_rescore()
        events = sum(each.events for each in leaving)
        # Without the ids: the trail must not keep those of people who are forgotten later.
        entries.record(
            entries.actor_of(request),
            entries.Action.CHANGED,
            "user",
            product_id=user.product_id,
            object_id=user.pk,
            note=f"Parted an id: new users {len(leaving):,}, moved events {events:,}.",
        )
        text = f"{chosen_id} is a user of its own. {events:,} events move there in the background."
        self.message_user(request, text, messages.SUCCESS)
        return redirect(self.view_url("change", user))


def _preview(user: User, chosen_id: str | None) -> list[Preview]:
    return parting.preview(user.product_id, user.pk, user.external_id, chosen_id or "")


def describe_progress(user: User) -> str:
    """How far the events have come that leave the user or come to it, "" if there are none."""
    requests = PartRequest.objects.filter(product=user.product_id)
    rows = list(requests.filter(Q(user_id=user.pk) | Q(target_id=user.pk)))
    if not rows:
        return ""
    moved, total = (sum(getattr(row, name) for row in rows) for name in ("moved", "total"))
    text = f"{moved:,} of {max(moved, total):,} events have moved"
    return f"An id is being parted: {text}. Until all are there, scores are of what has moved."
