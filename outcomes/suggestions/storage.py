"""The latest suggestions: requested, found, accepted. Pages use this: nothing here needs numpy."""

from datetime import datetime

import msgspec
from django.db import transaction

from core.jobs import run
from core.models import Job
from engagement.models import EventName, EventWeight, Workspace
from engagement.rescoring import sets
from outcomes.backtests.storage import interruption, of_workspace
from outcomes.kinds import Kind
from outcomes.models import StoredBacktest
from outcomes.suggestions.results import Suggestion, Weights

JOB = "suggest weights"


class NotAccepted(Exception):
    """The suggestion cannot be accepted. The text is a sentence that says why."""


def find(workspace: Workspace, kind: Kind) -> tuple[Suggestion, datetime] | None:
    """The latest suggestion, and when it was computed; None if none was."""
    row = _row(workspace, kind)
    if row is None or row.suggestion is None or row.suggested_at is None:
        return None
    return msgspec.convert(row.suggestion, Suggestion), row.suggested_at


def request(workspace: Workspace, kind: Kind, now: datetime) -> bool:
    """Have a suggestion computed soon, in the caller's transaction. Returns False if nobody has
    compared scores with outcomes of this kind yet."""
    row = _row(workspace, kind)
    if row is not None:
        run.request(JOB, now, row.pk)
    return row is not None


def progress(workspace: Workspace, kind: Kind) -> str:
    """That a suggestion is being computed, as a sentence; "" if none is."""
    row = _row(workspace, kind)
    job = Job.objects.filter(kind=JOB, key=row.pk).first() if row else None
    return interruption(job) or "Weights are being computed." if job else ""


def _row(workspace: Workspace, kind: Kind) -> StoredBacktest | None:
    return of_workspace(workspace).filter(kind=kind, segment=None).first()


def accept(workspace: Workspace, suggestion: Suggestion) -> None:
    """Give the workspace the suggested weights, and request scores with them.

    In one transaction, which is the caller's if there is one. Workers must be woken after it
    (``engagement.tasks.request_rescore``). Raises NotAccepted as ``obstacle()`` says.
    """
    with transaction.atomic():
        own = Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
        suggested = suggestion.suggested
        if suggested is None:
            raise NotAccepted("Nothing is suggested.")
        if reason := obstacle(suggestion, stored_weights(own)):
            raise NotAccepted(reason)
        own.lookback_days, own.half_life_days = suggested.lookback_days, suggested.half_life_days
        own.default_weight = suggested.default_weight
        own.save(update_fields=["lookback_days", "half_life_days", "default_weight", "updated_at"])
        changes = dict(suggested.weights.items() - suggestion.present.weights.items())
        for name in EventName.objects.filter(product=own.product_id, name__in=list(changes)):
            weight = {"weight": changes[name.name]}
            EventWeight.objects.update_or_create(weight, workspace=own, event_name=name)
        sets.request_score_set(own.pk)


def obstacle(suggestion: Suggestion, stored: Weights) -> str:
    """Why a workspace with the *stored* weights cannot accept the suggestion, as a sentence; "" if
    it can."""
    if stored == suggestion.suggested:
        return "The workspace has these weights."
    if stored != suggestion.present:
        return "The weights of the workspace have changed since. Have weights suggested again."
    if suggestion.judgement and suggestion.judgement.has_loss:
        return "Such weights predicted worse than the present ones, so they cannot be used."
    return ""


def stored_weights(workspace: Workspace) -> Weights:
    """What the workspace is to score, whether or not its scores are computed already."""
    of_events = EventWeight.objects.filter(
        workspace=workspace, event_name__product=workspace.product_id
    )
    own = (workspace.lookback_days, workspace.half_life_days, workspace.default_weight)
    return Weights(*own, dict(of_events.values_list("event_name__name", "weight")))
