"""Workspaces: their audience, lookback, event weights, and false alarms."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, cast

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from access.pages.edit_conflicts import add_conflict_errors, add_hidden_initials
from access.pages.pages import ExtraView, PageAction
from access.pages.place import requested_product
from access.pages.scoping import ProductFilter, TabularInline, deferred_script, request_access
from access.pages.subject_urls import trait_values_url
from console.recent_events import RecentEvents, load_recent_events
from console.rules import previews
from console.rules.rule_editor import RuleEditor, RuleForm, without_preview_buttons
from console.suggestions import load_suggestions
from console.workspaces import (
    activation_page,
    alarms_page,
    backtest_page,
    chances_page,
    cohorts_page,
    false_alarms,
    forecast_page,
    outcome_forms,
    trends_page,
    what_if,
)
from console.workspaces.weight_forms import (
    FEATURE_CHOICES,
    FEATURE_WEIGHT,
    WeightForm,
    WeightFormSet,
    WholeNumber,
    add_weight_row,
    apply_feature_weights,
    weight_rows,
)
from core.ids import parse_id
from core.time_format import format_ago
from engagement import tasks
from engagement.activity import reading
from engagement.models import EventWeight, Feature, Product, Workspace
from engagement.models.products import MAX_HALF_LIFE, MIN_HALF_LIFE
from engagement.rescoring import sets
from engagement.rules.rules import Rule, parse_rule, rule_to_json
from engagement.rules.texts import describe_rule
from engagement.scopes import ACCOUNTS, USERS, SubjectKind
from engagement.scores import rescore_queue
from engagement.scores.metrics import shown_benchmark
from engagement.scores.rescore_queue import rescore_account
from engagement.segments import counts

NAME_MISMATCH_MESSAGE = "That is not the workspace's name. Nothing was deleted."
# Fields that two people may edit at the same time.
_SHORT = ("lookback_days", "default_weight")
_OWN_SCORING = ["lookback_days", "half_life_days", "default_weight"]
_MOVED = "eds.moved"
CONFLICT_CHECKED_FIELDS = ("name", *_OWN_SCORING, "alarm_level")
SCORING_FIELDS = {*_OWN_SCORING, "audience"}


class WeightInline(TabularInline):
    model = EventWeight
    verbose_name = "weight"
    verbose_name_plural = "event weights"
    form = WeightForm
    formset = WeightFormSet
    template = "admin/engagement/weights.html"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        # The other fields belong to the form, which a read-only row does not have.
        return [] if self.has_change_permission(request, obj) else ["weight"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return (
            ["listed", "event", "weight"]
            if self.has_change_permission(request, obj)
            else ["weight"]
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("event_name").order_by("event_name")


class WorkspaceForm(outcome_forms.OutcomeFields, RuleForm):
    """A workspace's scoring and, once it exists, its audience and its outcomes."""

    half_life_days = WholeNumber(
        MIN_HALF_LIFE,
        MAX_HALF_LIFE,
        required=False,
        label="Half-life in days",
        help_text="Optional. With a half-life, all events count, each half as much after this "
        f"number of days ({MIN_HALF_LIFE}–{MAX_HALF_LIFE}). The lookback is then 30 days, and says "
        "who is active. Leave it empty to count the days of the lookback alike.",
    )
    default_weight = WholeNumber(
        0,
        10,
        initial=1,
        help_text="Weight for all other events (0–10). Use 0 to score only the events listed "
        "below.",
    )

    # Whether the lookback becomes that of a half-life.
    sets_lookback = False

    class Meta:
        model = Workspace
        fields = ["product", "name", *_OWN_SCORING, "alarm_level"]
        help_texts: ClassVar[dict[str, str]] = {
            "lookback_days": "Number of days that count, including today."
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk and "product" in self.fields:
            self.fields["product"].disabled = True
        if self.instance.pk:
            stored = parse_rule(self.instance.audience, "user", for_audience=True)
            suggestions = load_suggestions(self.instance.product_id)
            self.rows = RuleEditor(self.submitted_data, stored, suggestions, for_audience=True)

        add_hidden_initials(self, CONFLICT_CHECKED_FIELDS)

    def clean(self) -> None:
        super().clean()
        if self.cleaned_data.get("half_life_days") and "lookback_days" in self.cleaned_data:
            self.cleaned_data["lookback_days"] = Workspace.Lookback.MONTH
            self.sets_lookback = self.instance.lookback_days != Workspace.Lookback.MONTH
        add_conflict_errors(self, CONFLICT_CHECKED_FIELDS)
        rule = self.rows and self.rows.current_rule
        if rule:
            self.instance.audience = rule_to_json(rule) if rule.conditions else {}

    @property
    def changed_data(self) -> list[str]:
        changed = {*super().changed_data}
        changed |= {"lookback_days"} if self.sets_lookback else set()
        return [*changed, "audience"] if self.rows and self.rows.has_changed() else [*changed]


def _deleted_parts(workspace: Workspace) -> list[str]:
    segments = list(workspace.segments.all())
    custom = [segment.name for segment in segments if not segment.is_default]
    custom_text = f", {len(custom)} of them custom: {', '.join(custom)}" if custom else ""
    return [
        "its event weights and its audience",
        "its scores, with their history and benchmarks",
        f"its {len(segments)} segments{custom_text}",
    ]


def _benchmark(workspace: Workspace, kind: SubjectKind) -> str:
    benchmark = shown_benchmark(workspace.scores, kind) if workspace.scores else None
    return "None yet: no scores" if benchmark is None else f"{benchmark:.1f}"


@admin.register(Workspace)
class WorkspaceAdmin(
    activation_page.ActivationPages,
    backtest_page.BacktestPages,
    chances_page.ChancePages,
    alarms_page.AlarmPages,
    cohorts_page.CohortPages,
    forecast_page.ForecastPages,
    trends_page.TrendPages,
):
    empty_text = "There are no workspaces yet. One says how users and accounts are scored."
    form = WorkspaceForm
    list_display = ["name", "product", "counting", "default_weight", "progress"]
    list_filter = [("product", ProductFilter), "lookback_days"]
    list_select_related = ["product", "scores"]
    search_fields = ["name"]
    ordering = ["product__name", "product_id", "id"]
    inlines = [WeightInline]
    # Deleting asks for the workspace's name, so it is not a bulk action.
    actions = None
    delete_confirmation_template = "admin/engagement/delete_workspace.html"
    readonly_fields = [
        "user_benchmark",
        "account_benchmark",
        "computed_at",
        "progress",
        "audience_rule",
        "outcomes_on",
    ]
    change_form_template = "admin/engagement/workspace.html"
    extra_views = (
        ExtraView("preview", permission="change", methods=("POST",)),
        ExtraView("effect", permission="change", methods=("POST",)),
        ExtraView("progress", permission="view"),
        *backtest_page.BacktestPages.extra_views,
        *forecast_page.ForecastPages.forecast_views,
        *chances_page.ChancePages.chance_views,
        *trends_page.TrendPages.trend_views,
        *cohorts_page.CohortPages.cohort_views,
        *alarms_page.AlarmPages.alarm_views,
        *activation_page.ActivationPages.activation_views,
    )
    benchmarks = (
        "Benchmarks",
        {
            "fields": ["user_benchmark", "account_benchmark", "computed_at", "progress"],
            "description": "The 90th percentile of the raw scores above zero; with a half-life, of "
            "users and accounts that were active in the last 30 days. A user or account at the "
            "benchmark scores 90.",
        },
    )

    class Media:
        css = {
            "all": [
                "engagement/conditions.css",
                "engagement/weights.css",
                "engagement/backtest.css",
                "engagement/forecast.css",
                "engagement/chances.css",
                "engagement/trends.css",
                "engagement/cohorts.css",
                "engagement/usage.css",
                "engagement/activation.css",
            ]
        }
        js = [
            deferred_script("engagement/conditions.js"),
            deferred_script("engagement/weights.js"),
            deferred_script("engagement/progress.js"),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Workspace]:
        return sets.prefetch_building(super().get_queryset(request))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = ["product", "name", *_OWN_SCORING]
        own: list[str] = list(outcome_forms.FIELDS)
        if obj and not self.has_change_permission(request, obj):
            fields.append("audience_rule")
            own = ["outcomes_on"]
        if obj is None:
            return [(None, {"fields": fields}), ("Alarms", {"fields": ["alarm_level"]})]
        # What the table of events depends on is above it, and the rest folded below.
        folded: list[tuple[str, dict[str, Any]]] = [
            ("Name and half-life", {"fields": [each for each in fields if each not in _SHORT]}),
            self.benchmarks,
            ("Alarms", {"fields": ["alarm_level"]}),
            ("Outcomes", {"fields": own, "description": outcome_forms.DESCRIPTION}),
        ]
        short = (None, {"fields": [_SHORT]})
        return [short, *((title, {**each, "classes": ["collapse"]}) for title, each in folded)]

    @admin.display(description="counts", ordering="lookback_days")
    def counting(self, workspace: Workspace) -> str:
        return workspace.counting

    @admin.display(description="users")
    def user_benchmark(self, workspace: Workspace) -> str:
        return _benchmark(workspace, USERS)

    @admin.display(description="accounts")
    def account_benchmark(self, workspace: Workspace) -> str:
        return _benchmark(workspace, ACCOUNTS)

    @admin.display(description="computed")
    def computed_at(self, workspace: Workspace) -> SafeString | str:
        at = workspace.scores and workspace.scores.benchmarks_at
        return format_ago(at, timezone.now()) if at else "–"

    @admin.display(description="scores")
    def progress(self, workspace: Workspace) -> str:
        text = sets.describe_progress(workspace)
        if not sets.is_building(workspace):
            return text
        url = self.view_url("progress", workspace)
        return format_html('<span data-progress-url="{}">{}</span>', url, text)

    @admin.display(description="audience")
    def audience_rule(self, workspace: Workspace) -> str:
        return describe_rule(parse_rule(workspace.audience, "user", for_audience=True))

    @admin.display(description="outcomes")
    def outcomes_on(self, workspace: Workspace) -> str:
        return outcome_forms.describe_outcomes(workspace)

    def page_actions(self, request: HttpRequest, obj: Any) -> Sequence[PageAction]:
        return [PageAction(backtest_page.TITLE, self.view_url("backtest", obj))]

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        context = context | super().form_context(request, context, obj)
        rows = context["adminform"].form.rows
        if workspace := obj or self._planned(request):
            recent = self._recent_events(request, workspace)
            context["recent"] = recent
            formset = context["inline_admin_formsets"][0].formset
            context["features"] = Feature.objects.filter(product=workspace.product_id)
            context["feature_choices"], context["feature_weight"] = FEATURE_CHOICES, FEATURE_WEIGHT
            term = request.GET.get("event", "")
            context |= {"weight_rows": weight_rows(formset, recent, term), "event_term": term}
            if obj is None:
                context["event_names"] = load_suggestions(workspace.product_id).events
        if obj:
            context["alarms"] = false_alarms.false_alarms(obj, timezone.now().date())
        if rows and obj and self.has_change_permission(request, obj):
            context |= {
                "rows": rows,
                "event_names": rows.suggestions.events,
                "preview": self._preview(obj, rows),
                "preview_url": self.view_url("preview", obj),
                "values_url": trait_values_url(obj.pk),
                "effect": self._effect(request, obj),
                "effect_url": self.view_url("effect", obj),
            }
        return context

    # --- Previews and progress ----------------------------------------------------------------

    def preview_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """The users that the conditions in the form select."""
        suggestions = load_suggestions(workspace.product_id)
        rows = RuleEditor(request.POST, Rule("user", "all", ()), suggestions, for_audience=True)
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
        rule = rows.current_rule
        if rule is None or not rule.conditions:
            return None
        return previews.preview_audience(workspace, rule, timezone.now().date())

    def _effect(self, request: HttpRequest, workspace: Workspace) -> what_if.WhatIfEffect:
        if request.method != "POST":
            return what_if.unchanged_effect(workspace.scores)
        # Reload it: the page's form has already written the submitted values to its object.
        stored = Workspace.objects.select_related("scores__cached_counts").get(pk=workspace.pk)
        data = without_preview_buttons(request.POST)
        form = cast(
            WorkspaceForm, self.get_form(request, stored, change=True)(data, instance=stored)
        )
        ((formset, inline),) = self.get_formsets_with_inlines(request, stored)
        kwargs = self.get_formset_kwargs(request, stored, inline, formset.get_default_prefix())
        return what_if.form_effect(stored.scores, form, formset(**kwargs), timezone.now().date())

    def get_formset_kwargs(
        self, request: HttpRequest, obj: Any, inline: Any, prefix: str
    ) -> dict[str, Any]:
        kwargs: dict[str, Any] = super().get_formset_kwargs(request, obj, inline, prefix)
        if request.method == "POST":
            data = add_weight_row(kwargs["data"], prefix)
            kwargs["data"] = apply_feature_weights(data, prefix, obj.product_id)
        elif workspace := obj if obj.pk else self._planned(request):
            kwargs["initial"] = [
                {"listed": True, "event": event.name}
                for event in self._recent_events(request, workspace).events
                if event.weight is None
            ]
        return kwargs

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        planned = self._planned(request)
        return {**initial, "product": planned.product_id} if planned else initial

    def _planned(self, request: HttpRequest) -> Workspace | None:
        """A new workspace of the product that the form or the address names, or of the only one."""
        products = request_access(request).managed.filter_rows(Product.objects.all(), "pk")
        named = parse_id(request.POST.get("product", "")) or requested_product(request)
        rows = list((products if named is None else products.filter(pk=named))[:2])
        if len(rows) != 1:
            return None
        # Its events are counted as in the product's first workspace.
        first = rows[0].workspaces.select_related("scores").order_by("id").first()
        return Workspace(product=rows[0], scores=first and first.scores)

    def _recent_events(self, request: HttpRequest, workspace: Workspace) -> RecentEvents:
        """The page's events, counted once."""
        recent: RecentEvents | None = getattr(request, "recent_events", None)
        if recent is None:
            recent = load_recent_events(workspace, timezone.now().date())
            request.recent_events = recent  # type: ignore[attr-defined]
        return recent

    # --- Saving -------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Workspace, form: Any, change: bool) -> None:
        # Not the whole row: scoring may write its columns at the same time.
        update_fields = [*form.changed_data, "updated_at"] if change else None
        obj.save(update_fields=update_fields)

    def save_related(
        self,
        request: HttpRequest,
        form: Any,
        formsets: Iterable[Any],
        change: bool,
    ) -> None:
        formsets = list(formsets)
        weights_changed = any(formset.has_changed() for formset in formsets)
        rescores = not change or weights_changed or bool(SCORING_FIELDS & set(form.changed_data))
        if change and rescores:
            day, scores = timezone.now().date(), form.instance.scores
            request.META[_MOVED] = what_if.count_moved(scores, form, formsets[0], day)
        super().save_related(request, form, formsets, change)
        if rescores:
            sets.request_score_set(form.instance.pk)
            transaction.on_commit(tasks.request_rescore)
        elif "alarm_level" in form.changed_data and form.instance.scores_id:
            # The alarms of each level are there. What is counted and watched by them changes.
            counts.invalidate([form.instance.scores_id])
            if ids := reading.account_ids_at_any_level(form.instance.scores):
                # Scoring tells readers of changes that these accounts look different.
                product_id = form.instance.product_id
                rescore_queue.enqueue([rescore_account(product_id, id) for id in ids])
                transaction.on_commit(tasks.request_rescore)

    def saved_text(self, request: HttpRequest, obj: Workspace) -> str:
        text, moved = super().saved_text(request, obj), request.META.get(_MOVED)
        if moved is None:
            return text
        return f"{text} {moved:,} account{' moves' if moved == 1 else 's move'}."

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask for the workspace's name: its segments and their ids are lost for good."""
        workspace = self.get_object(request, unquote(object_id))
        may_delete = workspace is not None and self.has_delete_permission(request, workspace)
        typed_name = request.POST.get("name", "").strip()
        is_mistyped = may_delete and workspace and typed_name != workspace.name.strip()
        if request.method == "POST" and is_mistyped:
            self.message_user(request, NAME_MISMATCH_MESSAGE, messages.ERROR)
            return redirect(request.path)
        back = {"back": self.view_url("change", workspace)} if workspace else {}
        return super().delete_view(request, object_id, {**(extra_context or {}), **back})

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Name the segments, but not the scores: there are as many of them as users."""
        lines = [line for workspace in objs for line in _deleted_parts(workspace)]
        return self.summarize_deletion(request, lines, len(objs))
