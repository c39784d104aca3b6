"""The page *Owners and results* of a product: who owns which accounts, and what alarms end with."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect

from access.pages.pages import PageAdmin
from access.trail import entries
from access.work import owners, settings
from access.work.settings import MEANINGS, OwnerRule, Result, WorkSettings
from engagement.models import Product, Segment
from engagement.models.work import RESULT_LENGTH
from engagement.rules.rules import MAX_TRAIT_NAME_LENGTH

MOST_ROWS = 20
_BUILT_IN = {result.name for result in settings.BUILT_IN}


class RuleForm(forms.Form):
    """A rule; none if nothing is entered."""

    segment = forms.TypedChoiceField(coerce=int, required=False)
    owner = forms.ChoiceField(required=False)
    trait = forms.CharField(required=False, max_length=MAX_TRAIT_NAME_LENGTH)

    def __init__(self, *args: Any, product: Product, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        segments = Segment.objects.filter(
            workspace__product=product, scope=Segment.Scope.ACCOUNT
        ).select_related("workspace")
        fields: dict[str, Any] = self.fields
        fields["segment"].choices = [
            ("", "No segment"),
            *((each.pk, f"{each.workspace.name}: {each.name}") for each in segments),
        ]
        fields["owner"].choices = [("", "Nobody"), *owners.names(product.pk).items()]
        _name_fields(self)

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if values.get("trait") and (values.get("segment") or values.get("owner")):
            raise forms.ValidationError("Choose a segment and an owner, or enter a trait.")
        if bool(values.get("segment")) != bool(values.get("owner")):
            raise forms.ValidationError("A rule needs a segment and an owner.")
        return values


class ResultForm(forms.Form):
    name = forms.CharField(required=False, max_length=RESULT_LENGTH)
    means = forms.TypedChoiceField(
        coerce=settings.Means, choices=[(each.value, text) for each, text in MEANINGS.items()]
    )

    def __init__(self, *args: Any, product: Product, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _name_fields(self)

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        if name in _BUILT_IN:
            raise forms.ValidationError("This result is there anyway.")
        return name


def _name_fields(form: forms.Form) -> None:
    """For screen readers: a table has a label for each column only."""
    for name, field in form.fields.items():
        field.widget.attrs["aria-label"] = f"{name.capitalize()} {form.prefix}"


RuleFormSet = forms.formset_factory(RuleForm, extra=2, max_num=MOST_ROWS, validate_max=True)
ResultFormSet = forms.formset_factory(ResultForm, extra=2, max_num=MOST_ROWS, validate_max=True)


class WorkSettingsPages(PageAdmin):
    """The part of a product's admin that serves the settings of work."""

    def work_view(self, request: HttpRequest, product: Product) -> HttpResponseBase:
        own, of_product = settings.load(product), {"product": product}
        data = request.POST if request.method == "POST" else None
        rules: Any = RuleFormSet(
            data, prefix="rule", initial=_values(own.rules), form_kwargs=of_product
        )
        results: Any = ResultFormSet(
            data, prefix="result", initial=_values(own.results), form_kwargs=of_product
        )
        if data is not None and all([rules.is_valid(), results.is_valid()]):
            self._save(request, product, own, rules.cleaned_data, results.cleaned_data)
            return redirect(self.view_url("change", product))
        return self.render_page(
            request,
            "admin/engagement/work_settings.html",
            "Owners and results",
            original=product,
            rules=rules,
            results=results,
            back=self.view_url("change", product),
        )

    def _save(
        self, request: HttpRequest, product: Product, own: WorkSettings, rules: Any, results: Any
    ) -> None:
        changed = WorkSettings(
            tuple({row["name"]: Result(**row) for row in results if row.get("name")}.values()),
            tuple(
                OwnerRule(row["segment"] or 0, row["owner"], row["trait"])
                for row in rules
                if row.get("segment") or row.get("trait")
            ),
            is_changed=True,
            chosen_for=own.chosen_for,
        )
        if (changed.rules, changed.results) == (own.rules, own.results):
            return
        Product.objects.filter(pk=product.pk).update(work=settings.to_json(changed))
        entries.record(
            entries.actor_of(request),
            entries.Action.CHANGED,
            "product",
            product_id=product.pk,
            object_id=product.pk,
            name=product.name,
            note="Changed the rules of owners, or the results of alarms.",
        )
        text = "Saved. The rules choose owners within a few minutes, and again every night."
        messages.success(request, text)


def _values(rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [{name: getattr(row, name) for name in row.__struct_fields__} for row in rows]
