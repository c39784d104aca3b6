"""The field that says whose data is meant: a workspace's, a segment's, or a saved view's."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django import forms

from access.pages.reloads import RELOADS, ReloadingForm
from engagement.models import SavedView, Segment


class SourceForm(ReloadingForm):
    """The form of a row with a segment, a saved view, or neither for the whole workspace."""

    source = forms.ChoiceField(required=False, widget=forms.Select(attrs=RELOADS))

    def offer_sources(
        self, everything: str, segments: Iterable[Segment], views: Iterable[SavedView]
    ) -> None:
        """Offer these sources, and set the instance's own to the chosen one. A stored one that is
        not among them stays chosen, for the caller to refuse: it must not become the whole."""
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for segment in segments:
            groups[f"Segments of {segment.scope}s"].append((f"segment:{segment.pk}", segment.name))
        for view in views:
            groups[f"Saved views of {view.scope}s"].append((f"view:{view.pk}", view.name))
        field: Any = self.fields["source"]
        field.choices = [("", everything), *groups.items()]
        row: Any = self.instance
        if row.segment_id or row.view_id:
            own = f"segment:{row.segment_id}" if row.segment_id else f"view:{row.view_id}"
            self.initial["source"] = own
            if not field.valid_value(own):
                field.choices = [(own, "Deleted: choose another"), *field.choices]
        choice = self.data.get("source") if self.is_bound else self.initial.get("source")
        if field.valid_value(choice or ""):
            kind, _, pk = str(choice or "").partition(":")
            row.segment_id = int(pk) if kind == "segment" else None
            row.view_id = int(pk) if kind == "view" else None
