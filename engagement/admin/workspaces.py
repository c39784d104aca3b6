"""Workspaces: whom they are about, how far they look back and what each event weighs."""

from collections.abc import Iterable
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.formats import localize
from django.utils.html import format_html

from engagement import tasks
from engagement.admin import previews, what_if
from engagement.admin.condition_forms import (
    ADD_WEIGHT,
    RuleEditor,
    RuleForm,
    without_preview_buttons,
)
from engagement.admin.edit_conflicts import add_conflict_errors, add_hidden_initials
from engagement.admin.pages import ExtraView, PageAdmin
from engagement.admin.recent_events import load_recent_events
from engagement.admin.scoping import ProductFilter, TabularInline, deferred_script
from engagement.admin.suggestions import load_suggestions
from engagement.admin.weight_forms import (
    WeightForm,
    WeightFormSet,
    WholeNumber,
    add_weight_row,
)
from engagement.models import EventWeight, Workspace
from engagement.rescoring import sets
from engagement.rules.rules import Rule, parse_rule, rule_to_json
from engagement.rules.texts import describe_rule

NAME_MISMATCH_MESSAGE = "That is not the workspace's name. Nothing was deleted."
# What two people may edit at once.
CONFLICT_CHECKED_FIELDS = ("name", "lookback_days", "default_weight")
SCORING_FIELDS = {"lookback_days", "default_weight", "audience"}


class WeightInline(TabularInline):
    model = EventWeight
    verbose_name = "weight"
    verbose_name_plural = "event weights"
    form = WeightForm
    formset = WeightFormSet
    template = "admin/engagement/weights.html"
    extra = 1
    readonly_fields = ["shown_event"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        # The form names its event in a field of its own, which a row to look at does not have.
        event = "event" if self.has_change_permission(request, obj) else "shown_event"
        return [event, "weight"]

    @admin.display(description="event")
    def shown_event(self, weight: EventWeight) -> str:
        return weight.event_name.name

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("event_name").order_by("event_name")


class WorkspaceForm(RuleForm):
    """How a workspace scores and, once it is there, whom it is about."""

    default_weight = WholeNumber(
        0,
        10,
        initial=1,
        help_text="Weight of all other events, 0 to 10. 0 scores only the events listed below.",
    )

    class Meta:
        model = Workspace
        fields = ["product", "name", "lookback_days", "default_weight"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk and "product" in self.fields:
            self.fields["product"].disabled = True
        if self.instance.pk:
            stored = parse_rule(self.instance.audience, "user", for_audience=True)
            known = load_suggestions(self.instance.product_id)
            self.rows = RuleEditor(self.submitted_data, stored, known, for_audience=True)

        add_hidden_initials(self, CONFLICT_CHECKED_FIELDS)

    def clean(self) -> None:
        super().clean()
        add_conflict_errors(self, CONFLICT_CHECKED_FIELDS)
        rule = self.rows and self.rows.shown
        if rule:
            self.instance.audience = rule_to_json(rule) if rule.conditions else {}

    @property
    def changed_data(self) -> list[str]:
        changed = super().changed_data
        return [*changed, "audience"] if self.rows and self.rows.has_changed() else changed


def _what_goes(workspace: Workspace) -> list[str]:
    segments = list(workspace.segments.all())
    own = [one.name for one in segments if not one.is_default]
    named = f", {len(own)} of them your own: {', '.join(own)}" if own else ""
    return [
        "its event weights and its audience",
        "its scores, their history and benchmarks",
        f"its {len(segments)} segments{named}",
    ]


def format_benchmark(benchmark: float | None) -> str:
    return "None yet: nobody scored" if benchmark is None else f"{benchmark:.1f}"


@admin.register(Workspace)
class WorkspaceAdmin(PageAdmin):
    form = WorkspaceForm
    list_display = ["name", "product", "lookback_days", "default_weight", "progress"]
    list_filter = [("product", ProductFilter), "lookback_days"]
    list_select_related = ["product", "scores"]
    search_fields = ["name"]
    ordering = ["product__name", "product_id", "id"]
    inlines = [WeightInline]
    # Deleting asks for the name, one workspace at a time.
    actions = None
    delete_confirmation_template = "admin/engagement/delete_workspace.html"
    readonly_fields = ["of_users", "of_accounts", "taken", "progress", "audience_in_words"]
    change_form_template = "admin/engagement/workspace.html"
    extra_views = (
        ExtraView("preview", permission="change", methods=("POST",)),
        ExtraView("effect", permission="change", methods=("POST",)),
        ExtraView("progress", permission="view"),
    )
    benchmarks = (
        "Benchmarks",
        {
            "fields": ["of_users", "of_accounts", "taken", "progress"],
            "description": "The 90th percentiles of the raw scores above zero. A user or account "
            "at the benchmark scores 90.",
        },
    )

    class Media:
        css = {"all": ["engagement/conditions.css", "engagement/weights.css"]}
        js = [
            deferred_script("engagement/conditions.js"),
            deferred_script("engagement/weights.js"),
            deferred_script("engagement/progress.js"),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workspace]:
        return sets.prefetch_building(super().get_queryset(request))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = ["product", "name", "lookback_days", "default_weight"]
        if obj and not self.has_change_permission(request, obj):
            fields.append("audience_in_words")
        profile = (None, {"fields": fields})
        return [profile, self.benchmarks] if obj else [profile]

    @admin.display(description="of users")
    def of_users(self, workspace: Workspace) -> str:
        return format_benchmark(workspace.scores.user_benchmark if workspace.scores else None)

    @admin.display(description="of accounts")
    def of_accounts(self, workspace: Workspace) -> str:
        return format_benchmark(workspace.scores.account_benchmark if workspace.scores else None)

    @admin.display(description="taken")
    def taken(self, workspace: Workspace) -> str:
        at = workspace.scores and workspace.scores.benchmarks_at
        return localize(at) if at else "–"

    @admin.display(description="scores")
    def progress(self, workspace: Workspace) -> str:
        said = sets.describe_progress(workspace)
        if not sets.is_building(workspace):
            return said
        address = self.view_url("progress", workspace)
        return format_html('<span data-progress-url="{}">{}</span>', address, said)

    @admin.display(description="about")
    def audience_in_words(self, workspace: Workspace) -> str:
        return describe_rule(parse_rule(workspace.audience, "user", for_audience=True))

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any | None = None,
    ) -> HttpResponse:
        rows = context["adminform"].form.rows
        if obj:
            context["seen"] = load_recent_events(obj, timezone.now().date())
        if rows and obj and self.has_change_permission(request, obj):
            context |= {
                "rows": rows,
                "event_names": rows.known.events,
                "preview": self._preview(obj, rows),
                "preview_url": self.view_url("preview", obj),
                "effect": self._effect(request, obj),
                "effect_url": self.view_url("effect", obj),
            }
        return super().render_change_form(request, context, add, change, form_url, obj)

    # --- Asked for by the pages ---------------------------------------------------------------

    def preview_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """The users that the conditions in the form select."""
        known = load_suggestions(workspace.product_id)
        rows = RuleEditor(request.POST, Rule("user", "all", ()), known, for_audience=True)
        context = {"preview": self._preview(workspace, rows), "rows": rows}
        return TemplateResponse(request, "admin/engagement/preview.html", context)

    def effect_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """How saving the form would change the ranking."""
        effect = self._effect(request, workspace)
        return TemplateResponse(request, "admin/engagement/effect.html", {"effect": effect})

    def progress_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        is_over = not sets.is_building(workspace)
        return JsonResponse({"text": sets.describe_progress(workspace), "is_over": is_over})

    def _preview(self, workspace: Workspace, rows: RuleEditor) -> previews.Preview | None:
        rule = rows.shown
        if rule is None or not rule.conditions:
            return None
        return previews.preview_audience(workspace, rule, timezone.now().date())

    def _effect(self, request: HttpRequest, workspace: Workspace) -> what_if.WhatIfEffect:
        if request.method != "POST":
            return what_if.unchanged_effect(workspace.scores)
        # As stored: a page's own form has written what was filled in to its object.
        stored = Workspace.objects.select_related("scores__cached_counts").get(pk=workspace.pk)
        sent = without_preview_buttons(request.POST)
        form = cast(
            WorkspaceForm, self.get_form(request, stored, change=True)(sent, instance=stored)
        )
        ((formset, inline),) = self.get_formsets_with_inlines(request, stored)
        filled_in = self.get_formset_kwargs(request, stored, inline, formset.get_default_prefix())
        return what_if.form_effect(stored.scores, form, formset(**filled_in), timezone.now().date())

    def get_formset_kwargs(
        self, request: HttpRequest, obj: Any, inline: Any, prefix: str
    ) -> dict[str, Any]:
        kwargs: dict[str, Any] = super().get_formset_kwargs(request, obj, inline, prefix)
        if ADD_WEIGHT in request.POST:
            kwargs["data"] = add_weight_row(kwargs["data"], prefix)
        return kwargs

    # --- Saving -------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Workspace, form: Any, change: bool) -> None:
        # Not the whole row: scoring writes its columns at the same time.
        changed = [*form.changed_data, "updated_at"] if change else None
        obj.save(update_fields=changed)

    def save_related(
        self,
        request: HttpRequest,
        form: Any,
        formsets: Iterable[Any],
        change: bool,
    ) -> None:
        formsets = list(formsets)
        super().save_related(request, form, formsets, change)
        weighted = any(formset.has_changed() for formset in formsets)
        if not change or weighted or SCORING_FIELDS & set(form.changed_data):
            sets.request_score_set(form.instance.pk)
            transaction.on_commit(tasks.request_rescore)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask for the workspace's name first: its segments and their ids do not come back."""
        workspace = self.get_object(request, unquote(object_id))
        may = workspace is not None and self.has_delete_permission(request, workspace)
        typed = request.POST.get("name", "").strip()
        if may and workspace and request.method == "POST" and typed != workspace.name.strip():
            self.message_user(request, NAME_MISMATCH_MESSAGE, messages.ERROR)
            return redirect(request.path)
        back = {"back": self.view_url("change", workspace)} if workspace else {}
        return super().delete_view(request, object_id, {**(extra_context or {}), **back})

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Name segments, but no scores: there are as many of them as users."""
        count = len(objs)
        return (
            [line for workspace in objs for line in _what_goes(workspace)],
            {str(self.opts.verbose_name_plural): count},
            set() if self.has_delete_permission(request) else {str(self.opts.verbose_name)},
            [],
        )
