"""Segments: the default ones to look at, custom ones to make, each with who is in it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Field, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.http import urlencode

from engagement.admin import previews
from engagement.admin.condition_forms import RuleEditor, RuleForm
from engagement.admin.pages import ExtraView, PageAction, PageAdmin
from engagement.admin.scoping import deferred_script, visible_products
from engagement.admin.suggestions import load_suggestions
from engagement.database import sql
from engagement.models import Segment, Workspace
from engagement.rules import texts
from engagement.rules.rules import Rule, rule_to_json
from engagement.segments import counts as tallies
from engagement.segments import members as segments

# A list waits so long for its counts.
COUNT_TIMEOUT_SECONDS = 5.0


class SegmentForm(RuleForm):
    """A custom segment's name and rule. ``rows`` is None where no workspace is chosen."""

    class Meta:
        model = Segment
        fields = ["workspace", "scope", "name"]
        widgets = {"workspace": forms.HiddenInput, "scope": forms.HiddenInput}

    # Given by the admin: a rule to begin with.
    like: Rule | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.pk:
            self._choose()
        if self.instance.workspace_id and self.instance.scope:
            known = load_suggestions(self.instance.workspace.product_id)
            stored = segments.segment_rule(self.instance)
            self.rows = RuleEditor(self.submitted_data, stored, known, begin_with=self.like)

    def _choose(self) -> None:
        """Take workspace and scope, as they were chosen on the page before, if they exist."""
        given = self.data if self.is_bound else self.initial
        try:
            workspace = self.fields["workspace"].clean(given.get("workspace"))
            scope = self.fields["scope"].clean(given.get("scope"))
        except forms.ValidationError:
            return
        self.instance.workspace, self.instance.scope = workspace, scope

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        others = Segment.objects.filter(
            workspace_id=self.instance.workspace_id, scope=self.instance.scope, name=name
        )
        if others.exclude(pk=self.instance.pk).exists():
            raise forms.ValidationError("The workspace already has a segment of this name.")
        return name

    def clean(self) -> None:
        super().clean()
        rule = self.rows and self.rows.shown
        if rule and not rule.conditions:
            self.add_error(None, "Give at least one condition.")
        elif rule:
            stored = rule_to_json(rule)
            self.instance.match, self.instance.conditions = stored["match"], stored["conditions"]

    @property
    def changed_data(self) -> list[str]:
        changed = super().changed_data
        return [*changed, "conditions"] if self.rows and self.rows.has_changed() else changed


class SegmentWorkspaceFilter(admin.RelatedFieldListFilter):
    """Filters a list by workspace and offers only those that the person may see."""

    def field_choices(
        self, field: "Field[Any, Any]", request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, Any]]:
        seen = Workspace.objects.filter(product__in=visible_products(request.user))
        ordered = seen.select_related("product").order_by("product__name", "product_id", "id")
        return [(str(workspace.pk), workspace) for workspace in ordered]


class SegmentChangeList(ChangeList):
    """Counts the members of the segments on the page that is shown."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        by_workspace = defaultdict(list)
        for segment in self.result_list:
            segment.member_count = None
            if segment.workspace.scores:
                by_workspace[segment.workspace.scores].append(segment)
        try:
            with sql.statement_timeout(COUNT_TIMEOUT_SECONDS):
                for score_set, listed in by_workspace.items():
                    counts = tallies.segment_counts(score_set, listed)
                    for segment in listed:
                        segment.member_count = counts[segment.pk]
        except sql.StatementTimeout:
            # The segments' own pages count them one by one.
            return


@admin.register(Segment)
class SegmentAdmin(PageAdmin):
    form = SegmentForm
    product_path = "workspace__product"
    list_display = ["name", "of", "members", "described", "kind", "workspace"]
    list_filter = [("workspace", SegmentWorkspaceFilter), "scope"]
    list_select_related = ["workspace__product", "workspace__scores__cached_counts"]
    list_per_page = 50
    search_fields = ["name"]
    ordering = ["workspace__product__name", "workspace_id", "-scope", "position", "id"]
    sortable_by = ()
    actions = None
    change_form_template = "admin/engagement/segment.html"
    extra_views = (ExtraView("preview", permission="add", methods=("POST",), needs_row=False),)

    class Media:
        css = {"all": ["engagement/conditions.css"]}
        js = [deferred_script("engagement/conditions.js")]

    # --- The list -----------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return SegmentChangeList

    @admin.display(description="of")
    def of(self, segment: Segment) -> str:
        return segment.get_scope_display()

    @admin.display(description="members meet")
    def described(self, segment: Segment) -> str:
        return texts.describe_rule(segments.segment_rule(segment))

    @admin.display(description="kind")
    def kind(self, segment: Segment) -> str:
        return "default" if segment.is_default else "custom"

    @admin.display(description="members")
    def members(self, segment: Any) -> str:
        return "–" if segment.member_count is None else f"{segment.member_count:,}"

    # --- Who may what -------------------------------------------------------------------------

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return not (obj and obj.is_default) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return not (obj and obj.is_default) and super().has_delete_permission(request, obj)

    # --- A segment's page ---------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[Segment]:
        return super().get_queryset(request).select_related(*self.list_select_related)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ["workspace", "scope", "name"]
        shown = ["name", "workspace", "of"]
        return shown if self.has_change_permission(request, obj) else [*shown, "described"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["workspace", "of", "described"] if obj else []

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        chosen = request.GET.get("workspace"), request.GET.get("scope")
        if request.method != "POST" and not all(chosen):
            return self._choose_view(request)
        return super().add_view(request, form_url, extra_context)

    def _choose_view(self, request: HttpRequest) -> HttpResponse:
        """Ask which workspace's users or accounts the segment is of."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        return self.render_page(
            request,
            "admin/engagement/choose_segment.html",
            "Add segment",
            workspaces=self._workspaces_to_choose(request),
            scopes=Segment.Scope.choices,
        )

    def _workspaces_to_choose(self, request: HttpRequest) -> QuerySet[Workspace]:
        field = Segment._meta.get_field("workspace")
        choices: Any = self.formfield_for_foreignkey(field, request)
        rows: QuerySet[Workspace] = choices.queryset
        return rows.select_related("product")

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        like = request.GET.get("like", "")
        if obj is None and like.isdecimal():
            found = self.get_queryset(request).filter(pk=like, scope=request.GET.get("scope"))
            form.like = next((segments.segment_rule(segment) for segment in found), None)
        return form

    def save_model(self, request: HttpRequest, obj: Segment, form: Any, change: bool) -> None:
        written = ["name", "match", "conditions", "updated_at"]
        obj.save(update_fields=written if change else None)
        tallies.invalidate([obj.workspace.scores_id] if obj.workspace.scores_id else [])

    def page_actions(self, request: HttpRequest, obj: Segment) -> Sequence[PageAction]:
        if not self.has_add_permission(request):
            return ()
        given: dict[str, Any] = {"workspace": obj.workspace_id, "scope": obj.scope, "like": obj.pk}
        return [PageAction("Duplicate", f"{self.view_url('add')}?{urlencode(given)}")]

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any | None = None,
    ) -> HttpResponse:
        form = context["adminform"].form
        if form.rows is None:
            # Only a made-up address or form has no workspace to be about.
            raise Http404
        segment: Segment = form.instance
        context |= {
            "rows": form.rows if obj is None or self.has_change_permission(request, obj) else None,
            "about": segment,
            "preview": self._preview(segment.workspace, form.rows, segment.is_default),
            "preview_url": self._preview_url(segment),
        }
        return super().render_change_form(request, context, add, change, form_url, obj)

    # --- Who is in it -------------------------------------------------------------------------

    def preview_view(self, request: HttpRequest) -> HttpResponseBase:
        """Who would be in a segment with the conditions that are filled in."""
        pk, scope = request.GET.get("workspace", ""), request.GET.get("scope")
        workspaces = self._workspaces_to_choose(request).select_related("scores")
        workspace = workspaces.filter(pk=pk if pk.isdecimal() else 0).first()
        if workspace is None or scope not in Segment.Scope.values:
            raise Http404
        nothing = Rule("user" if scope == "user" else "account", "all", ())
        rows = RuleEditor(request.POST, nothing, load_suggestions(workspace.product_id))
        context = {"preview": self._preview(workspace, rows), "rows": rows}
        return TemplateResponse(request, "admin/engagement/preview.html", context)

    def _preview(
        self, workspace: Workspace, rows: RuleEditor, of_everybody: bool = False
    ) -> previews.Preview | None:
        rule = rows.shown
        if rule is None or not (rule.conditions or of_everybody):
            return None
        return previews.preview_segment(workspace, rule)

    def _preview_url(self, segment: Segment) -> str:
        given: dict[str, Any] = {"workspace": segment.workspace_id, "scope": segment.scope}
        return f"{self.view_url('preview')}?{urlencode(given)}"
