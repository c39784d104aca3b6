"""The background jobs that follow scoring. One that reads what another computes comes after it."""

from datetime import timedelta
from functools import partial

from core.jobs.backoff import Backoff
from core.jobs.kinds import register as register_kind
from engagement.rescoring import sets, stamping
from engagement.rescoring.rescore import QUEUE
from engagement.scores import benchmarks, marks, past_benchmarks
from engagement.segments import counts

BUILD_SETS = "build scores"
PAST_BENCHMARKS = "compute past benchmarks"
BENCHMARKS = "compute benchmarks"
COUNTS = "count segments"
# People wait for the scores of what they edited.
BUILD_BACKOFF = Backoff(first=timedelta(seconds=5), factor=2, longest=timedelta(minutes=1))


def register() -> None:
    _register_scores()
    _register_what_follows()


def _register_scores() -> None:
    register_kind(
        BUILD_SETS,
        "Computes all scores of a new or edited workspace. Until then people see the old ones.",
        queue=QUEUE,
        step=sets.build,
        keys=sets.sets_to_build,
        is_urgent=True,
        backoff=BUILD_BACKOFF,
    )
    register_kind(
        PAST_BENCHMARKS,
        "Computes the benchmarks of past days again after events that came late.",
        queue=QUEUE,
        step=partial(past_benchmarks.refresh, on_change=stamping.note_moved_thresholds),
        keys=past_benchmarks.sets_to_refresh,
        # Late events come all the time.
        share=0.01,
        shortest_rest=timedelta(seconds=10),
    )


def _register_what_follows() -> None:
    register_kind(
        BENCHMARKS,
        "Computes what a score of 90 is, after scores have changed.",
        queue=QUEUE,
        step=partial(
            marks.recompute,
            mark="benchmarks_stale",
            compute=partial(benchmarks.refresh, on_change=stamping.note_moved_thresholds),
        ),
        keys=partial(marks.sets_with, "benchmarks_stale"),
        lease=timedelta(minutes=3),
        is_urgent=True,
        # Large workspaces get them less often.
        share=0.02,
        shortest_rest=timedelta(seconds=1),
    )
    register_kind(
        COUNTS,
        "Counts users, accounts, and the members of segments, after they have changed.",
        queue=QUEUE,
        step=partial(marks.recompute, mark="cached_counts_stale", compute=counts.refresh),
        keys=partial(marks.sets_with, "cached_counts_stale"),
        # Longer than what each part of it may take.
        lease=timedelta(minutes=10),
        is_urgent=True,
        share=0.05,
    )
