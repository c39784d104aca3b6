"""Segments: default ones, which are read-only, and custom ones, with their members."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Field, QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import mark_safe

from access.pages.pages import ExtraView, PageAction, PageAdmin
from access.pages.place import find_place, requested_workspace
from access.pages.reloads import RELOADS
from access.pages.scoping import deferred_script, visible_products
from access.pages.subject_urls import subject_list_url, trait_values_url
from console.rules import previews
from console.rules.rule_editor import RuleEditor, RuleForm
from console.suggestions import load_suggestions, load_trait_values
from core.database import sql
from core.ids import parse_id
from engagement.limits import limits
from engagement.metric_names import Scope
from engagement.models import Segment, Workspace
from engagement.rules import texts
from engagement.rules.rules import Rule, parse_rule, rule_to_json
from engagement.scopes import get_kind
from engagement.segments import counts
from engagement.segments import members as segments
from trends import curves

# The prefix of a condition's inputs.
_PREFIX = re.compile(r"[a-z]+-[0-9]{1,3}", re.ASCII)
# The list waits for all of its counts.
COUNT_TIMEOUT_SECONDS = 5.0


class SegmentForm(RuleForm):
    """A custom segment's name and rule. ``rows`` is None without any workspace."""

    class Meta:
        model = Segment
        fields = ["workspace", "scope", "name"]
        labels = {"scope": "Type"}

    # Set by the admin: the rule of the segment to duplicate.
    copied_rule: Rule | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.pk:
            self._set_parent()
        if self.instance.workspace_id and self.instance.scope:
            suggestions = load_suggestions(self.instance.workspace.product_id)
            stored = segments.segment_rule(self.instance)
            self.rows = RuleEditor(
                self.submitted_data, stored, suggestions, initial_rule=self.copied_rule
            )

    def _set_parent(self) -> None:
        """Set the workspace and the scope whose conditions the page offers: the chosen ones."""
        data = self.data if self.is_bound else self.initial
        fields: dict[str, Any] = self.fields
        fields["scope"].choices = Segment.Scope.choices[::-1]
        fields["scope"].widget.attrs |= RELOADS
        if workspace := self.chosen_row("workspace"):
            scope = data.get("scope")
            self.instance.workspace = workspace
            self.instance.scope = scope if scope in Segment.Scope.values else Segment.Scope.ACCOUNT
            self.initial["scope"] = self.instance.scope

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        others = Segment.objects.filter(
            workspace_id=self.instance.workspace_id, scope=self.instance.scope, name=name
        )
        if others.exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError("This workspace already has a segment with this name.")
        return name

    def clean(self) -> None:
        super().clean()
        workspace = self.instance.workspace if self.instance.workspace_id else None
        product_id = workspace.product_id if workspace and not self.instance.pk else None
        if product_id is not None and limits.segments_left(product_id) <= 0:
            text = (
                "This product has as many segments as it may have. Delete one that nobody uses, "
                "or ask a superuser for a higher limit."
            )
            self.add_error(None, text)
        rule = self.rows and self.rows.current_rule
        if rule and not rule.conditions:
            self.add_error(None, "Add at least one condition.")
        elif rule:
            stored = rule_to_json(rule)
            self.instance.match, self.instance.conditions = stored["match"], stored["conditions"]

    @property
    def changed_data(self) -> list[str]:
        changed = super().changed_data
        return [*changed, "conditions"] if self.rows and self.rows.has_changed() else changed


def _members_url(segment: Segment) -> str:
    """The URL of the list of the segment's members."""
    scope: Scope = "user" if segment.scope == "user" else "account"
    return subject_list_url(scope, segment.workspace_id, segment.pk)


class SegmentWorkspaceFilter(admin.RelatedFieldListFilter):
    """Filters a list by the workspaces that the login may see."""

    # The side bar offers the same choice.
    is_in_navigation = True

    def field_choices(
        self, field: "Field[Any, Any]", request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, Any]]:
        rows = Workspace.objects.filter(product__in=visible_products(request.user))
        rows = rows.select_related("product").order_by("product__name", "product_id", "id")
        return [(str(workspace.pk), workspace) for workspace in rows]


class SegmentChangeList(ChangeList):
    """Counts the members of the segments on the page, with what nights knew of them."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        by_score_set = defaultdict(list)
        for segment in self.result_list:
            segment.member_count = None
            if segment.workspace.scores:
                by_score_set[segment.workspace.scores].append(segment)
        try:
            with sql.statement_timeout(COUNT_TIMEOUT_SECONDS):
                for score_set, scored in by_score_set.items():
                    member_counts = counts.known_segment_counts(score_set, scored)
                    for segment in scored:
                        segment.member_count = member_counts.get(segment.pk)
        except sql.StatementTimeout:
            # A segment's page counts its own members.
            pass
        lines = curves.member_lines(self.result_list, timezone.now().date())
        for segment in self.result_list:
            segment.line = lines.get(segment.pk)
        self.default_count = sum(segment.is_default for segment in self.result_list)
        # Those that somebody looks for are not hidden.
        self.shows_defaults = bool(self.query) or self.default_count == len(self.result_list)


class TypeFilter(admin.ChoicesFieldListFilter):
    """The filter by scope, with the heading of the column."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "type"


@admin.register(Segment)
class SegmentAdmin(PageAdmin):
    empty_text = (
        "There are no segments yet. One groups the users or accounts that match its conditions."
    )
    form = SegmentForm
    product_path = "workspace__product"
    list_display = ["name", "scope_label", "members", "history", "rule", "kind", "workspace"]
    list_filter = [("workspace", SegmentWorkspaceFilter), ("scope", TypeFilter)]
    list_select_related = ["workspace__product", "workspace__scores__cached_counts"]
    list_per_page = 50
    search_fields = ["name"]
    # Custom segments first.
    ordering = [
        "workspace__product__name",
        "workspace_id",
        "is_default",
        "-scope",
        "position",
        "id",
    ]
    sortable_by = ()
    actions = None
    change_form_template = "admin/engagement/segment.html"
    change_list_template = "admin/engagement/segments.html"
    extra_views = (
        ExtraView("preview", permission="add", methods=("POST",), needs_row=False),
        ExtraView("values", permission="add", methods=("GET",), needs_row=False),
    )

    class Media:
        css = {"all": ["engagement/conditions.css", "engagement/trends.css"]}
        js = [deferred_script("engagement/conditions.js")]

    # --- The list -----------------------------------------------------------------------------

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        columns = list(super().get_list_display(request))
        if "workspace__id__exact" in request.GET:
            columns.remove("workspace")
        return columns

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return SegmentChangeList

    @admin.display(description="type")
    def scope_label(self, segment: Segment) -> str:
        return segment.get_scope_display()

    @admin.display(description="conditions")
    def rule(self, segment: Segment) -> str:
        return texts.describe_rule(segments.segment_rule(segment))

    @admin.display(description="kind")
    def kind(self, segment: Segment) -> str:
        # By the class, the style sheet folds these rows.
        return (
            mark_safe('<span class="eds-default">default</span>')
            if segment.is_default
            else "custom"
        )

    @admin.display(description="last 30 days")
    def history(self, segment: Any) -> str:
        line = segment.line
        if line is None:
            return "–"
        change = f"{line.change} in 7 days" if line.change else ""
        return format_html('{}<span class="quiet">{}</span>', line.chart, change)

    @admin.display(description="members")
    def members(self, segment: Any) -> str:
        return "–" if segment.member_count is None else f"{segment.member_count:,}"

    # --- Permissions --------------------------------------------------------------------------

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return not (obj and obj.is_default) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return not (obj and obj.is_default) and super().has_delete_permission(request, obj)

    # --- A segment's page ---------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[Segment]:
        return super().get_queryset(request).select_related(*self.list_select_related)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return [("scope", "workspace"), "name"]
        fields = ["name", "workspace", "scope_label"]
        return fields if self.has_change_permission(request, obj) else [*fields, "rule"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["workspace", "scope_label", "rule"] if obj else []

    def _workspaces_to_choose(self, request: HttpRequest) -> QuerySet[Workspace]:
        field = Segment._meta.get_field("workspace")
        choices: Any = self.formfield_for_foreignkey(field, request)
        rows: QuerySet[Workspace] = choices.queryset
        return rows.select_related("product")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial = super().get_changeform_initial_data(request)
        return {**initial, "workspace": requested_workspace(request)}

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        if obj is None:
            form.copied_rule = self._copied_rule(request)
            product = find_place(request).product_id
            workspaces = form.base_fields["workspace"]
            if product is not None:
                workspaces.queryset = workspaces.queryset.filter(product=product)
        return form

    def _copied_rule(self, request: HttpRequest) -> Rule | None:
        """The rule that the form of a new segment starts with: that of the segment ``like``, or the
        URL's own ``rule``."""
        like, scope = parse_id(request.GET.get("like", "")), request.GET.get("scope", "")
        if like is not None:
            originals = self.get_queryset(request).filter(pk=like, scope=scope)
            return next((segments.segment_rule(segment) for segment in originals), None)
        try:
            return parse_rule(json.loads(request.GET["rule"]), get_kind(scope).scope)
        except (KeyError, ValueError, AttributeError, RecursionError):
            return None

    def save_model(self, request: HttpRequest, obj: Segment, form: Any, change: bool) -> None:
        update_fields = ["name", "match", "conditions", "updated_at"]
        obj.save(update_fields=update_fields if change else None)
        counts.invalidate([obj.workspace.scores_id] if obj.workspace.scores_id else [])

    def after_saving(self, request: HttpRequest, obj: Segment) -> str:
        return _members_url(obj)

    def page_actions(self, request: HttpRequest, obj: Segment) -> Sequence[PageAction]:
        if not self.has_add_permission(request):
            return ()
        query: dict[str, Any] = {"workspace": obj.workspace_id, "scope": obj.scope, "like": obj.pk}
        return [PageAction("Duplicate", f"{self.view_url('add')}?{urlencode(query)}")]

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        form = context["adminform"].form
        if form.rows is None:
            return {"has_workspace": False}
        segment: Segment = form.instance
        return {
            **super().form_context(request, context, obj),
            "has_workspace": True,
            "rows": form.rows if obj is None or self.has_change_permission(request, obj) else None,
            "segment": segment,
            "preview": self._preview(segment.workspace, form.rows, segment),
            "preview_url": self._preview_url(segment),
            "values_url": trait_values_url(segment.workspace_id),
            "members_url": _members_url(segment) if obj else None,
            "history": curves.history(segment) if obj else None,
        }

    # --- The preview --------------------------------------------------------------------------

    def preview_view(self, request: HttpRequest) -> HttpResponseBase:
        """The members that the conditions in the form select."""
        workspace, scope = self._requested_place(request)
        rows = RuleEditor(
            request.POST, Rule(scope, "all", ()), load_suggestions(workspace.product_id)
        )
        context = {"preview": self._preview(workspace, rows), "rows": rows}
        return TemplateResponse(request, "admin/engagement/preview.html", context)

    def values_view(self, request: HttpRequest) -> HttpResponseBase:
        """The values of a trait that a condition's row suggests."""
        workspace, scope = self._requested_place(request)
        prefix, trait = request.GET.get("prefix", ""), request.GET.get("trait", "").strip()
        if not _PREFIX.fullmatch(prefix) or "\0" in trait:
            raise Http404
        values = load_trait_values(workspace.product_id, scope, trait)
        context = {"prefix": prefix, "values": values}
        return TemplateResponse(request, "admin/engagement/trait_values.html", context)

    def _requested_place(self, request: HttpRequest) -> tuple[Workspace, Scope]:
        """The workspace and the scope that the URL names."""
        pk, scope = parse_id(request.GET.get("workspace", "")), request.GET.get("scope")
        workspaces = self._workspaces_to_choose(request).select_related("scores")
        workspace = workspaces.filter(pk=pk or 0).first()
        if workspace is None or scope not in Segment.Scope.values:
            raise Http404
        return workspace, "user" if scope == "user" else "account"

    def _preview(
        self, workspace: Workspace, rows: RuleEditor, segment: Segment | None = None
    ) -> previews.Preview | None:
        rule = rows.current_rule
        may_be_empty = segment is not None and segment.is_default
        if rule is None or not (rule.conditions or may_be_empty):
            return None
        is_stored = segment is not None and segment.pk and not rows.is_bound
        stored = segment if is_stored else None
        return previews.preview_segment(workspace, rule, timezone.now(), stored)

    def _preview_url(self, segment: Segment) -> str:
        query: dict[str, Any] = {"workspace": segment.workspace_id, "scope": segment.scope}
        return f"{self.view_url('preview')}?{urlencode(query)}"
