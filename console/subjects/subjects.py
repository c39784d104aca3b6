"""Users and accounts: their traits, events, and scores. All read-only."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.safestring import SafeString

from access.pages.pages import ExtraView
from access.pages.scoping import deferred_script, request_access
from access.pages.subject_urls import WORKSPACE_PARAM, subject_list_url
from access.trail import entries
from console.lists.actions import (
    change_posted_accounts,
    delete_posted_view,
    export_list,
    save_posted_view,
    subject_line,
)
from console.lists.page import find_list, page_context
from console.lists.state import GoTo
from console.subjects import subject_details, subject_pages
from console.subjects.account_people import (
    PEOPLE_SHOWN,
    PeopleTable,
    listed_group,
    people_table,
    requested_group,
)
from console.subjects.activation_card import activation_card
from console.subjects.chance_card import chance_lines
from console.subjects.chart_days import ChartDays
from console.subjects.feature_card import feature_groups
from console.subjects.forgetting import ForgettableAdmin
from console.subjects.license_card import license_card
from console.subjects.license_moves import decide_move, move_questions
from console.subjects.license_timeline import license_timeline
from console.subjects.parting import PartableAdmin, describe_progress
from console.subjects.timeline_page import timeline_page
from console.subjects.work_card import do_work, work_card
from core.time_format import format_ago
from engagement.metric_names import Scope
from engagement.models import Account, User, Workspace, last_seen
from engagement.recording.suppression import SubjectScope
from engagement.scopes import get_kind
from marketplace.admin.account_licenses import license_note

# With the value 1, the page of a large account has its history from the start.
HISTORY_PARAM = "history"


class SubjectAdmin(ForgettableAdmin):
    """What the pages of users and accounts have in common."""

    change_form_template = "admin/engagement/subject.html"
    change_list_template = "admin/engagement/subject_list.html"
    extra_views: ClassVar[Sequence[ExtraView]] = [
        *ForgettableAdmin.extra_views,
        ExtraView("export", permission="view", methods=("GET",), needs_row=False),
        ExtraView("line", permission="view", methods=("GET", "HEAD")),
        ExtraView("timeline", permission="view", methods=("GET", "HEAD")),
        ExtraView("latest", permission="view", methods=("GET", "HEAD")),
        ExtraView("save_view", permission="view", methods=("POST",), needs_row=False),
        ExtraView("delete_view", permission="view", methods=("POST",), needs_row=False),
    ]

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["engagement/subject.css"]}
        js: ClassVar[list[Any]] = [deferred_script("engagement/parts.js")]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).filter(is_identified=True)
        return rows.defer("trait_stamps")

    @property
    def list_scope(self) -> Scope:
        return "user" if self.model is User else "account"

    @admin.display(description="name")
    def display_name(self, subject: Any) -> str:
        """The name, or the external id if there is no name."""
        return str(subject.name or subject.external_id)

    @admin.display(description="last message")
    def last_message(self, subject: Any) -> SafeString:
        return format_ago(subject.last_seen_at, timezone.now())

    # --- The list -----------------------------------------------------------------------------

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            page = find_list(request, self.list_scope, timezone.now())
        except GoTo as target:
            return self._go_to(request, target)
        context = page_context(page)
        urls = {
            f"{name}_url": self.view_url(name) for name in ("export", "save_view", "delete_view")
        }
        if self.list_scope == "account":
            urls["work_url"] = self.view_url("change_work")
        return self.render_page(request, self.change_list_template, **context, **urls)

    def _go_to(self, request: HttpRequest, target: GoTo, view: str = "changelist") -> HttpResponse:
        if target.message:
            level = messages.WARNING if target.is_problem else messages.SUCCESS
            self.message_user(request, target.message, level)
        return redirect(f"{self.view_url(view)}?{target.query}".rstrip("?"))

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Download all rows of the list, in its order and with its columns."""
        try:
            page = find_list(request, self.list_scope, timezone.now(), opens_views=False)
        except GoTo as target:
            return self._go_to(request, target, "changelist" if target.message else "export")
        entries.record(
            entries.actor_of(request),
            entries.Action.EXPORTED,
            "export",
            product_id=page.workspace.product_id if page.workspace else None,
            name=str(page.workspace or ""),
            note=f"The list of {self.list_scope}s as CSV.",
        )
        return export_list(page)

    def line_view(self, request: HttpRequest, subject: Any) -> HttpResponse:
        """The line in a row of the list, for a subject with very many counts."""
        workspace = _chosen_workspace(request, subject)
        return HttpResponse(workspace and subject_line(workspace, self.list_scope, subject.pk))

    def save_view_view(self, request: HttpRequest) -> HttpResponseBase:
        """Save the list whose query is posted, and open it."""
        try:
            return self._go_to(request, save_posted_view(request, self.list_scope))
        except GoTo as target:
            return self._go_to(request, target)

    def delete_view_view(self, request: HttpRequest) -> HttpResponseBase:
        return self._go_to(request, delete_posted_view(request, self.list_scope))

    # --- The page -----------------------------------------------------------------------------

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return [
            ("Ids and times", {"fields": self.get_fields(request, obj), "classes": ["collapse"]})
        ]

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        workspaces = subject_pages.product_workspaces(obj.product_id)
        requested_id = request.GET.get(WORKSPACE_PARAM)
        workspace = subject_pages.choose_workspace(workspaces, requested_id)
        summary = self.score_summary(request, workspace, obj) if workspace else None
        kind = get_kind(self.list_scope)
        return {
            "title": self.display_name(obj),
            # Nobody edits them here, so there is nothing to list.
            "has_history": False,
            "subtitle": None,
            "events_shown": subject_details.EVENTS_SHOWN,
            # The queryset defers the stamps, so this reads them with one query.
            "traits": subject_details.trait_table(obj),
            "license_traits": subject_details.license_trait_table(obj),
            "feature_groups": feature_groups(obj.product_id, kind, obj.pk, timezone.now().date()),
            "activation": activation_card(workspace, kind, obj.pk) if workspace else None,
            "workspaces": workspaces,
            "workspace": workspace,
            "summary": summary,
            "timeline_urls": {
                name: f"{self.view_url(name, obj)}?{request.GET.urlencode()}"
                for name in ("timeline", "latest")
            },
            "segment_links": [
                (segment.name, subject_list_url(summary.scope, segment.workspace_id, segment.pk))
                for segment in summary.segments
            ]
            if summary
            else [],
        }

    def score_summary(
        self, request: HttpRequest, workspace: Workspace, obj: Any
    ) -> subject_pages.ScoreSummary:
        days = ChartDays.of(request.GET, "user")
        return subject_pages.score_summary(workspace, obj, timezone.now(), chart_days=days)

    def timeline_view(self, request: HttpRequest, subject: Any) -> HttpResponse:
        """What happened to the subject in the last year."""
        workspace = _chosen_workspace(request, subject)
        page = timeline_page(workspace, subject, request.GET, timezone.now())
        return self.render_page(
            request,
            "admin/engagement/timeline.html",
            f"Timeline of {self.display_name(subject)}",
            original=subject,
            timeline=page,
            workspace=workspace,
            back=f"{self.view_url('change', subject)}?{request.GET.urlencode()}",
        )

    def latest_view(self, request: HttpRequest, subject: Any) -> HttpResponse:
        """The part of the page with what happened last."""
        workspace = _chosen_workspace(request, subject)
        page = timeline_page(workspace, subject, QueryDict(), timezone.now(), is_brief=True)
        return render(request, "admin/engagement/timeline_days.html", {"timeline": page})


@admin.register(User)
class UserAdmin(PartableAdmin, SubjectAdmin):
    scope = SubjectScope.USER
    extra_views: ClassVar[Sequence[ExtraView]] = [
        *SubjectAdmin.extra_views,
        *PartableAdmin.extra_views,
    ]
    fields = ["external_id", "shown_name", "shown_email", "product", "first_seen_at"]
    fields += ["last_message"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = list(super().get_fields(request, obj))
        if obj is not None and subject_details.other_ids(obj):
            fields.insert(1, "other_ids")
        return fields

    @admin.display(description="also known as")
    def other_ids(self, user: User) -> str:
        text = ", ".join(subject_details.other_ids(user))
        is_moving = subject_details.has_rows_to_move(user)
        return f"{text} (earlier activity is still being moved)" if is_moving else text

    @admin.display(description="name")
    def shown_name(self, user: User) -> str | None:
        return user.name

    @admin.display(description="email")
    def shown_email(self, user: User) -> str | None:
        return user.email

    @admin.display(description="last message")
    def last_message(self, user: User) -> SafeString:
        rows = User.objects.filter(product_id=user.product_id, pk=user.pk)
        return format_ago(rows.values_list(last_seen(user.product_id)).get()[0], timezone.now())

    def page_context(self, request: HttpRequest, obj: User) -> dict[str, Any]:
        context = super().page_context(request, obj)
        workspace_id = context["workspace"] and context["workspace"].pk
        return {
            **context,
            "accounts": subject_details.account_rows(obj, workspace_id),
            "events": subject_details.events_of_user(obj, workspace_id),
            "progress": describe_progress(obj),
        }


@admin.register(Account)
class AccountAdmin(SubjectAdmin):
    scope = SubjectScope.ACCOUNT
    fields = ["external_id", "shown_name", "shown_domain", "product"]
    fields += ["first_seen_at", "last_message"]
    extra_views: ClassVar[Sequence[ExtraView]] = [
        *SubjectAdmin.extra_views,
        ExtraView("score_history", permission="view", methods=("GET", "HEAD")),
        ExtraView("activity", permission="view", methods=("GET", "HEAD")),
        ExtraView("license_move", permission="decide", methods=("POST",)),
        ExtraView("work", permission="work", methods=("POST",)),
        ExtraView("change_work", permission="view", methods=("POST",), needs_row=False),
    ]

    def has_decide_permission(self, request: HttpRequest, obj: Account) -> bool:
        return self.may_change(request, obj)

    def change_work_view(self, request: HttpRequest) -> HttpResponseBase:
        """Choose an owner and tags for accounts of the posted list."""
        try:
            return self._go_to(
                request, change_posted_accounts(request, self.list_scope, timezone.now())
            )
        except GoTo as target:
            return self._go_to(request, target)

    def has_work_permission(self, request: HttpRequest, obj: Account) -> bool:
        return obj.product_id in request_access(request).workable

    @admin.display(description="name")
    def shown_name(self, account: Account) -> str | None:
        return account.name

    @admin.display(description="domain")
    def shown_domain(self, account: Account) -> str | None:
        return account.domain

    def page_context(self, request: HttpRequest, obj: Account) -> dict[str, Any]:
        context = super().page_context(request, obj)
        workspace = context["workspace"]
        summary = context["summary"]
        notes = [note] if (note := license_note(obj)) else []
        return {
            **context,
            "is_account": True,
            "later": self._later_urls(request, obj) if summary and summary.is_brief else None,
            "license": license_card(
                obj.traits,
                summary and summary.active_users,
                timezone.now().date(),
                notes,
                compares_seats=bool(summary and summary.compares_seats),
            ),
            "timeline": license_timeline(obj),
            "chances": list(chance_lines(workspace, obj.pk, timezone.now().date()))
            if workspace
            else [],
            "moves": move_questions(obj, may_decide=self.may_change(request, obj)),
            "move_url": self.view_url("license_move", obj),
            "events": subject_details.events_of_account(obj, workspace and workspace.pk),
            "people": _people_table(request, obj, workspace, summary),
            "activity": summary and summary.activity,
            "work": work_card(
                request,
                obj,
                workspace,
                self._work_url(request, obj),
                may_work=self.has_work_permission(request, obj),
            ),
        }

    def _work_url(self, request: HttpRequest, account: Account) -> str:
        return f"{self.view_url('work', account)}?{request.GET.urlencode()}"

    def work_view(self, request: HttpRequest, account: Account) -> HttpResponse:
        """Do what a form of the page says, and show the page again."""
        do_work(request, account, _chosen_workspace(request, account))
        return redirect(f"{self.view_url('change', account)}?{request.GET.urlencode()}")

    def score_summary(
        self, request: HttpRequest, workspace: Workspace, obj: Any
    ) -> subject_pages.ScoreSummary:
        return subject_pages.score_summary(
            workspace,
            obj,
            timezone.now(),
            may_be_brief=request.GET.get(HISTORY_PARAM) != "1",
            group=listed_group(requested_group(request.GET)),
            people_shown=PEOPLE_SHOWN,
            chart_days=ChartDays.of(request.GET, "account"),
        )

    def _later_urls(self, request: HttpRequest, account: Account) -> dict[str, str]:
        """Where the rest of a large account's page is: its parts, and the page with them."""
        query = request.GET.copy()
        query[HISTORY_PARAM] = "1"
        parts = {"history": "score_history", "activity": "activity"}
        urls = {
            name: f"{self.view_url(view, account)}?{request.GET.urlencode()}"
            for name, view in parts.items()
        }
        return {**urls, "page": f"?{query.urlencode()}"}

    def score_history_view(self, request: HttpRequest, account: Account) -> HttpResponse:
        """The part of the page with the history of a large account."""
        workspace = _chosen_workspace(request, account)
        days = ChartDays.of(request.GET, "account")
        summary = subject_pages.score_history(workspace, account, days) if workspace else None
        return render(request, "admin/engagement/score_history.html", {"summary": summary})

    def activity_view(self, request: HttpRequest, account: Account) -> HttpResponse:
        """The part of the page with the events and the people of a large account."""
        workspace = _chosen_workspace(request, account)
        group = listed_group(requested_group(request.GET))
        summary = (
            subject_pages.score_activity(workspace, account, group, PEOPLE_SHOWN)
            if workspace
            else None
        )
        context = {
            "summary": summary,
            "later_cause": summary and summary.cause,
            "people": _people_table(request, account, workspace, summary),
        }
        return render(request, "admin/engagement/activity.html", context)

    def license_move_view(self, request: HttpRequest, account: Account) -> HttpResponse:
        self.message_user(request, decide_move(request, account), messages.SUCCESS)
        return redirect(self.view_url("change", account))


def _chosen_workspace(request: HttpRequest, subject: Any) -> Workspace | None:
    workspaces = subject_pages.product_workspaces(subject.product_id)
    return subject_pages.choose_workspace(workspaces, request.GET.get(WORKSPACE_PARAM))


def _people_table(
    request: HttpRequest,
    account: Account,
    workspace: Workspace | None,
    summary: subject_pages.ScoreSummary | None,
) -> PeopleTable | None:
    score_set = workspace.scores if workspace else None
    if score_set is None or summary is None or summary.people is None:
        return None
    return people_table(account, score_set, summary.people, summary.total_users, request.GET)
