"""The jobs that follow scoring. A kind that reads what another computes comes after it."""

from datetime import timedelta
from functools import partial

from core.jobs import kinds
from core.jobs.backoff import Backoff
from engagement.models import Activation, ScoreSet
from engagement.orders import storage as orders
from engagement.rescoring import activation, sets, stamping
from engagement.rescoring.rescore import QUEUE
from engagement.scores import benchmarks, marks, past_benchmarks
from engagement.search import entries
from engagement.segments import counts

BUILD_SETS = "build scores"
PAST_BENCHMARKS = "compute past benchmarks"
BENCHMARKS = "compute benchmarks"
COUNTS = "count segments"
AWAITED_ORDERS = "compute awaited orders"
ORDERS = "refresh orders"
STAMP_CHANGES = "stamp changes"
INDEX_BACKLOG = "index for the search"
DELETE_RETIRED = "delete retired score sets"
ACTIVATION = "build activation"
ACTIVATION_FIGURES = "count activation"

# Nearly all keys are ids of score sets.
_register = partial(kinds.register, queue=QUEUE, title=ScoreSet.name_of)


def register() -> None:
    """Register the kinds of jobs."""
    _register_scores()
    _register(
        COUNTS,
        "Counts users, accounts, and the members of segments, after they have changed.",
        step=partial(marks.recompute, mark="cached_counts_stale", compute=counts.refresh),
        keys=partial(marks.sets_with, "cached_counts_stale"),
        # Longer than what all parts of it may take.
        lease=timedelta(minutes=10),
        is_urgent=True,
        share=0.05,
    )
    _register_activation()
    label = "Sorts a large list for the first time, by a column that somebody asked for."
    step, keys = orders.compute_awaited, orders.awaited_orders
    _register(AWAITED_ORDERS, label, step=step, keys=keys, title=str)
    label = "Sorts large lists again after scores have changed."
    every = timedelta(minutes=1)
    _register(ORDERS, label, step=orders.refresh, every=every, share=0.05)
    label = "Notes for readers of changed_since whose segments changed without a new score."
    _register(STAMP_CHANGES, label, step=stamping.stamp_pending)
    label = "Lets the search find users and accounts that are older than it."
    _register(INDEX_BACKLOG, label, step=entries.work_off_backlog)
    label = "Deletes scores that newer ones have replaced."
    _register(DELETE_RETIRED, label, step=sets.delete_retired)


def _register_scores() -> None:
    # People wait for the scores of what they edited.
    _register(
        BUILD_SETS,
        "Computes all scores of a new or edited workspace. Until then people see the old ones.",
        step=sets.build,
        keys=sets.sets_to_build,
        is_urgent=True,
        backoff=Backoff(first=timedelta(seconds=5), factor=2, longest=timedelta(minutes=1)),
    )
    # Late events come all the time.
    _register(
        PAST_BENCHMARKS,
        "Computes the benchmarks of past days again after events that came late.",
        step=partial(past_benchmarks.refresh, on_change=stamping.note_moved_thresholds),
        keys=past_benchmarks.sets_to_refresh,
        share=0.01,
        shortest_rest=timedelta(seconds=10),
    )
    # Large workspaces get them less often.
    compute = partial(benchmarks.refresh, on_change=stamping.note_moved_thresholds)
    _register(
        BENCHMARKS,
        "Computes what a score of 90 is, after scores have changed.",
        step=partial(marks.recompute, mark="benchmarks_stale", compute=compute),
        keys=partial(marks.sets_with, "benchmarks_stale"),
        lease=timedelta(minutes=3),
        is_urgent=True,
        share=0.02,
        shortest_rest=timedelta(seconds=1),
    )


def _register_activation() -> None:
    # People wait for the steps that they edited.
    kinds.register(
        ACTIVATION,
        "Finds out who has done which of the edited steps. Until then people see the old ones.",
        queue=QUEUE,
        step=activation.work,
        keys=activation.to_work_on,
        is_urgent=True,
        title=_steps_of,
    )
    kinds.register(
        ACTIVATION_FIGURES,
        "Counts how many users and accounts have done each step.",
        queue=QUEUE,
        step=activation.count,
        keys=activation.to_count,
        lease=timedelta(minutes=5),
        share=0.02,
        shortest_rest=timedelta(seconds=30),
        title=_steps_of,
    )


def _steps_of(pk: int) -> str:
    row = Activation.objects.select_related("workspace__product").filter(pk=pk).first()
    return f"{row.workspace}, {row.scope}s" if row else str(pk)
