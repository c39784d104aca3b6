"""Features, and the pages of features and events: who uses them, who started, and who stopped."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from access.pages.edit_conflicts import add_conflict_errors, add_hidden_initials
from access.pages.pages import ExtraView, PageAction, ProductColumnAdmin, RowPageAdmin
from access.pages.place import requested_product
from access.pages.scoping import ProductFilter, ReadOnly
from access.pages.subject_urls import subject_url
from core import charts
from core.ids import parse_id
from engagement.models import EventName, Feature, Product
from engagement.models.activity import EVENT_NAME_LENGTH
from engagement.models.features import MAX_EVENTS, MAX_FEATURES
from engagement.models.features import USED_WITHIN as DAYS
from engagement.rules.naming import segments_with_feature
from engagement.scores.insight_texts import format_percent
from trends.usage import features, reading
from trends.usage.reading import Figures, Moved, Sums, Thing

RANGES = (30, 90, 365)
ACCOUNTS_SHOWN = 20
# Other names can be typed.
EVENTS_OFFERED = 300
DAY = timedelta(days=1)


class FeatureForm(forms.ModelForm):  # type: ignore[type-arg]
    """A feature's name and its events: known ones to choose, and others to type."""

    known = forms.MultipleChoiceField(
        label="Events",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="An event belongs to one feature at most: those of other features are left out.",
    )
    typed = forms.CharField(
        label="Other events",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 40}),
        help_text="One a line, exactly as your application sends it.",
    )

    class Meta:
        model = Feature
        fields = ["product", "name"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        product_id = self.instance.product_id or parse_id(
            str(self.data.get("product") or self.initial.get("product") or "")
        )
        if self.instance.pk and "product" in self.fields:
            self.fields["product"].disabled = True
        self.product_names = EventName.objects.filter(product=product_id or 0)
        own = self.product_names.filter(feature=self.instance.pk) if self.instance.pk else ()
        self.own_events = [event.name for event in own]
        free = self.product_names.filter(feature=None).order_by("name")
        choices = [*self.own_events, *free.values_list("name", flat=True)[:EVENTS_OFFERED]]
        if "known" in self.fields:
            field: Any = self.fields["known"]
            field.choices = [(name, name) for name in choices]
            self.initial["known"] = self.own_events
        add_hidden_initials(self, ["name"])

    def clean(self) -> None:
        super().clean()
        add_conflict_errors(self, ["name"])
        product = self.cleaned_data.get("product") or getattr(self.instance, "product", None)
        if product is None:
            return
        others = Feature.objects.filter(product=product).exclude(pk=self.instance.pk)
        if others.filter(name=self.cleaned_data.get("name")).exists():
            self.add_error("name", "This product already has a feature with this name.")
        if not self.instance.pk and others.count() >= MAX_FEATURES:
            self.add_error(None, f"A product has at most {MAX_FEATURES} features.")
        self._check_renaming(product)
        self._clean_events()

    def _check_renaming(self, product: Product) -> None:
        """Rules name features: an unknown name would match nobody."""
        own = Feature.objects.filter(product=product, pk=self.instance.pk)
        before = own.values_list("name", flat=True).first()
        if before and before != self.cleaned_data.get("name", before):
            names = segments_with_feature(product.pk, before)
            if names:
                text = f"These segments use “{before}”: {', '.join(names)}. Change them first."
                self.add_error("name", text)

    def _clean_events(self) -> None:
        typed = [name.strip() for name in self.cleaned_data.get("typed", "").splitlines()]
        names = [*self.cleaned_data.get("known", ()), *filter(None, typed)]
        self.cleaned_data["events"] = list(dict.fromkeys(names))
        if not names:
            self.add_error("known", "Choose at least one event, or type its name.")
        elif len(names) > MAX_EVENTS:
            self.add_error("known", f"A feature has at most {MAX_EVENTS} events.")
        for name in filter(None, typed):
            if len(name) > EVENT_NAME_LENGTH or not name.isprintable():
                text = f"“{name[:50]}” is not the name of an event."
                self.add_error("typed", text)
        of_others = self.product_names.filter(name__in=names, feature__isnull=False)
        for event in of_others.exclude(feature=self.instance.pk).select_related("feature"):
            self.add_error("typed", f"“{event.name}” is in the feature “{event.feature}”.")


class FeatureChangeList(ChangeList):
    """Adds the sums of the last night to the features on the page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        by_product: dict[int, dict[tuple[int, int], Sums]] = {}
        for row in self.result_list:
            if row.product_id not in by_product:
                by_product[row.product_id] = reading.all_sums(row.product_id)
            row.sums = by_product[row.product_id].get((row.pk, 0))


class UsagePages(ProductColumnAdmin):
    """What the pages of features and events have in common."""

    def usage_page(self, request: HttpRequest, row: Any, **context: Any) -> HttpResponse:
        thing, today = Thing.of(row), reading.last_night(row.product_id)
        context = {"today": today, "subtitle": None, **context}
        if today:
            days = _requested_days(request)
            context |= _usage_context(thing, today, days, request.path)
        return self.render_page(request, "admin/engagement/usage.html", row.name, **context)


@admin.register(Feature)
class FeatureAdmin(UsagePages):
    empty_text = "There are no features yet. One groups events, and shows who uses it."
    form = FeatureForm
    list_display = [
        *("usage_link", "product", "event_count", "accounts", "share", "started", "stopped"),
    ]
    list_display_links = None
    list_filter = [("product", ProductFilter)]
    search_fields = ["name"]
    ordering = ["product", "name"]
    sortable_by = ()
    actions = None
    extra_views = (ExtraView("usage", permission="view", methods=("GET", "HEAD")),)

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["engagement/usage.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Feature]:
        return super().get_queryset(request).select_related("product")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return FeatureChangeList

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["product", "name", *(["known", "typed"] if self.may_change(request, obj) else [])]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        product = requested_product(request)
        return {**initial, "product": product} if product else initial

    # --- The list -----------------------------------------------------------------------------

    @admin.display(description="name")
    def usage_link(self, feature: Feature) -> SafeString:
        return format_html('<a href="{}">{}</a>', self.view_url("usage", feature), feature.name)

    @admin.display(description="events")
    def event_count(self, feature: Feature) -> int:
        return EventName.objects.filter(product=feature.product_id, feature=feature).count()

    @admin.display(description="accounts")
    def accounts(self, feature: Any) -> str:
        return f"{feature.sums.used:,}" if feature.sums else "–"

    @admin.display(description="of active accounts")
    def share(self, feature: Any) -> str:
        share = feature.sums.share if feature.sums else None
        return "–" if share is None else format_percent(share)

    @admin.display(description="started")
    def started(self, feature: Any) -> str:
        return f"{feature.sums.started:,}" if feature.sums else "–"

    @admin.display(description="stopped")
    def stopped(self, feature: Any) -> str:
        return f"{feature.sums.stopped:,}" if feature.sums else "–"

    # --- The pages ----------------------------------------------------------------------------

    def usage_view(self, request: HttpRequest, feature: Feature) -> HttpResponseBase:
        events = EventName.objects.filter(product=feature.product_id, feature=feature)
        may_change = self.may_change(request, feature)
        return self.usage_page(
            request,
            feature,
            events=[(event.name, event_url(event.pk)) for event in events],
            edit_url=self.view_url("change", feature) if may_change else "",
        )

    def page_actions(self, request: HttpRequest, obj: Any) -> Sequence[PageAction]:
        return [PageAction("Who uses it", self.view_url("usage", obj))]

    def save_model(self, request: HttpRequest, obj: Feature, form: Any, change: bool) -> None:
        obj.save(update_fields=["name"] if change else None)
        features.set_events(obj, form.cleaned_data["events"])

    def delete_model(self, request: HttpRequest, obj: Feature) -> None:
        features.delete(obj)

    def response_post_save_add(self, request: HttpRequest, obj: Feature) -> HttpResponseRedirect:
        return redirect(self.view_url("usage", obj))

    response_post_save_change = response_post_save_add


@admin.register(EventName)
class EventNameAdmin(ReadOnly, UsagePages, RowPageAdmin):
    empty_text = "There are no events yet."
    list_display = ["name", "feature", "product"]
    list_filter = [("product", ProductFilter)]
    list_select_related = ["product", "feature"]
    search_fields = ["name"]
    ordering = ["name", "id"]
    actions = None

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["engagement/usage.css"]}

    def row_page(self, request: HttpRequest, obj: EventName) -> HttpResponse:
        own = Feature.objects.filter(product=obj.product_id)
        feature = own.get(pk=obj.feature_id) if obj.feature_id else None
        feature_url = feature and reverse("admin:engagement_feature_usage", args=[feature.pk])
        return self.usage_page(request, obj, feature=feature, feature_url=feature_url)


def event_url(event_name_id: int) -> str:
    return reverse("admin:engagement_eventname_change", args=[event_name_id])


# --- A page -----------------------------------------------------------------------------------


def _requested_days(request: HttpRequest) -> int:
    days = parse_id(request.GET.get("days", ""))
    return days if days in RANGES else RANGES[1]


def _usage_context(thing: Thing, today: date, days: int, path: str) -> dict[str, Any]:
    figures = reading.figures(thing, today - 2 * days * DAY, today)
    labels = [charts.day_label(today - (days - n) * DAY) for n in range(days)]
    ranges = [charts.Range(f"{n} days", f"{path}?days={n}", n == days) for n in RANGES]
    return {
        "sums": reading.sums(thing, today),
        "through": today - DAY,
        "days": DAYS,
        "comparisons": _comparisons(figures),
        "curves": [
            _curve(f"{name} a day, last {days} days", labels, values, ranges)
            for name, values in (("Accounts", figures.accounts), ("Users", figures.users))
        ],
        "moved": [
            ("Started", "first used", _rows(reading.started(thing, today, ACCOUNTS_SHOWN))),
            ("Stopped", "last used", _rows(reading.stopped(thing, today, ACCOUNTS_SHOWN))),
        ],
    }


def _comparisons(figures: Figures) -> list[tuple[str, str, str]]:
    """Of users and accounts: the mean of a day, and that of the 28 days before."""
    return [
        (
            name,
            charts.format_number(round(sum(values[-DAYS:]) / DAYS, 1)),
            charts.format_number(round(sum(values[-2 * DAYS : -DAYS]) / DAYS, 1)),
        )
        for name, values in (("accounts", figures.accounts), ("users", figures.users))
    ]


def _curve(
    title: str, labels: Sequence[str], values: Sequence[int], ranges: Sequence[charts.Range]
) -> SafeString:
    size = len(labels)
    series = [
        charts.Series(title.split()[0], values[size:]),
        charts.Series(f"{size} days before", values[:size], is_dotted=True),
    ]
    return charts.line(title, labels, series, ranges=ranges)


def _rows(moved: Sequence[Moved]) -> list[tuple[str, str, date]]:
    return [
        (
            each.account.name or each.account.external_id,
            subject_url(each.account, "account"),
            each.day,
        )
        for each in moved
    ]
