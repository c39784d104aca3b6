"""What-if: the ranking of a workspace under an unsaved definition.

The scores are computed by the ordinary scoring, in a score set that is rolled back.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, timedelta
from typing import Any, LiteralString, NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from core.database import sql
from engagement.metric_names import BOTH_SCOPES, Scope
from engagement.models import Account, EventName, ScoredEvent, ScoreSet, Segment, User
from engagement.scopes import SubjectKind, get_kind
from engagement.scores import benchmarks, past_benchmarks, raw, sampling
from engagement.scores.formula import rounded_score
from engagement.segments import counts, members

RANKS_SHOWN = 10
# With more subjects only a part is scored: those that rank highest, and an even sample, which
# also gives the benchmark.
SCORE_ALL_UP_TO = 5_000
TOP_USERS, SAMPLE_SIZE = 1_000, 1_000
# Fewer, because an account costs as much as its users: the top accounts of 1,000,000 take 70 ms
# each.
TOP_ACCOUNTS = 200
USERS_PER_STEP, ACCOUNTS_PER_STEP = 1_000, 50
# The largest number of users to score for the sake of accounts.
MAX_USERS_OF_ACCOUNTS = 5_000


class ScoringDefinition(NamedTuple):
    """What a workspace scores. ``weights`` are by event name. With a half-life, the lookback is 30
    days and only says who is active."""

    lookback_days: int
    default_weight: int
    audience: dict[str, Any]
    weights: Mapping[str, int]
    half_life_days: int | None = None


class RankedSubject(NamedTuple):
    """A subject with its rank and score in one ranking.

    ``other_rank`` is its rank in the ranking that this one is compared with; None if it is not in
    that ranking, or ranks below all that were compared.
    """

    subject: User | Account
    rank: int
    score: float
    other_rank: int | None


class RankingPreview(NamedTuple):
    """The top of the current ranking and of the ranking with the change.

    ``sample_size`` is the number of subjects that were scored; None if all were, so that the
    numbers are exact. ``members`` is then the number of members with the change of each of the
    workspace's segments, by their ids, and ``moved`` the number of those whose rank would change;
    otherwise they are empty and None.
    """

    current: list[RankedSubject]
    with_change: list[RankedSubject]
    sample_size: int | None
    members: Mapping[int, int]
    moved: int | None = None


def scores_all(score_set: ScoreSet) -> bool:
    """Whether a preview is exact because there are few users and accounts."""
    selections = (_select_subjects(score_set, get_kind(scope)) for scope in BOTH_SCOPES)
    return all(selection.sample is None for selection in selections)


def scoring_definition(score_set: ScoreSet) -> ScoringDefinition:
    """The definition of the set."""
    weights = score_set.weights.values_list("event_name_id", "weight")
    names_of_product = EventName.objects.filter(product=score_set.product_id)
    names = names_of_product.in_bulk([name_id for name_id, _ in weights])
    return ScoringDefinition(
        score_set.lookback_days,
        score_set.default_weight,
        score_set.audience,
        {names[name_id].name: weight for name_id, weight in weights if name_id in names},
        score_set.half_life_days,
    )


def current_ranking(score_set: ScoreSet) -> dict[Scope, list[RankedSubject]]:
    """The top of the set's rankings."""
    kinds = {scope: get_kind(scope) for scope in BOTH_SCOPES}
    return {
        scope: _top(score_set, kind, kind.benchmark(score_set), {}) for scope, kind in kinds.items()
    }


def preview_ranking(
    score_set: ScoreSet, definition: ScoringDefinition, today: date, out_of_time: Callable[[], bool]
) -> dict[Scope, RankingPreview]:
    """The set's rankings, now and under the definition.

    Accounts are missing if that means scoring too many users, or if there is no time for all of
    them. Takes no lock that recording or scoring waits for. Raises sql.StatementTimeout if
    *out_of_time* returns true before all users are scored.
    """
    users = _select_subjects(score_set, get_kind("user"))
    accounts = _select_subjects(score_set, get_kind("account"))
    needs_users_of_accounts = bool(definition.audience) and users.sample is not None
    with transaction.atomic():
        preview_set = _create_set(score_set, definition, today)
        # With an audience accounts count only users with an engagement row.
        users_of_accounts = (
            _users_of_accounts(preview_set, accounts.ids, today) if needs_users_of_accounts else []
        )
        if has_accounts := len(users_of_accounts) <= MAX_USERS_OF_ACCOUNTS:
            users.ids.update(users_of_accounts)
        for step in _steps(users.ids, USERS_PER_STEP):
            if out_of_time():
                raise sql.StatementTimeout
            raw.score_users(preview_set, step, today)
        previews: dict[Scope, RankingPreview] = {
            "user": _compare(score_set, preview_set, get_kind("user"), users)
        }
        if has_accounts and _score_accounts(preview_set, accounts.ids, today, out_of_time):
            previews["account"] = _compare(score_set, preview_set, get_kind("account"), accounts)
        # Nobody has seen the set, and nobody will.
        transaction.set_rollback(True)
    return previews


# --- Subjects to score ----------------------------------------------------------------------


class _Selection(NamedTuple):
    """The subjects to score. ``sample`` represents all subjects; None if all are scored."""

    ids: set[int]
    sample: list[int] | None


def _select_subjects(score_set: ScoreSet, kind: SubjectKind) -> _Selection:
    rows = kind.model._default_manager.filter(product_id=score_set.product_id, is_identified=True)
    ids = set(rows.order_by("external_id").values_list("id", flat=True)[: SCORE_ALL_UP_TO + 1])
    if len(ids) <= SCORE_ALL_UP_TO:
        return _Selection(ids, None)
    largest = _largest_set(score_set)
    totals = counts.subject_totals([largest])[largest.pk]
    total = getattr(totals, kind.plural)
    sample = sampling.sample_subjects(largest, kind.scope, total, SAMPLE_SIZE).ids
    limit = TOP_USERS if kind.scope == "user" else TOP_ACCOUNTS
    top = _ranked(score_set, kind).values_list(kind.id_column, flat=True)[:limit]
    return _Selection({*sample, *top}, sample)


def _largest_set(score_set: ScoreSet) -> ScoreSet:
    """A current set of the product without an audience, if there is one."""
    current = ScoreSet.objects.filter(product_id=score_set.product_id, state=ScoreSet.State.CURRENT)
    return current.filter(audience={}).select_related("cached_counts").first() or score_set


_USERS_OF_ACCOUNTS: LiteralString = """
    SELECT DISTINCT user_id FROM engagement_dailycount
    WHERE product_id = %(product)s AND account_id = ANY(%(accounts)b::bigint[])
      AND day BETWEEN %(seen_from)s AND %(today)s
    LIMIT %(limit)s
"""


def _users_of_accounts(
    preview_set: ScoreSet, account_ids: Collection[int], today: date
) -> list[int]:
    """The users whose events count for the accounts; one more than the maximum if too many."""
    rows = sql.fetch(
        _USERS_OF_ACCOUNTS,
        {
            "product": preview_set.product_id,
            "accounts": list(account_ids),
            "seen_from": today - timedelta(days=raw.USERS_SEEN_WITHIN_DAYS - 1),
            "today": today,
            "limit": MAX_USERS_OF_ACCOUNTS + 1,
        },
    )
    return [id for (id,) in rows]


def _score_accounts(
    preview_set: ScoreSet, ids: Collection[int], today: date, out_of_time: Callable[[], bool]
) -> bool:
    """Score the accounts; return whether there was time for all of them."""
    for step in _steps(ids, ACCOUNTS_PER_STEP):
        if out_of_time():
            return False
        raw.score_accounts(preview_set, step, today)
    return True


def _steps(ids: Collection[int], size: int) -> Iterator[Collection[int]]:
    sorted_ids = sorted(ids)
    for start in range(0, len(sorted_ids), size):
        yield sorted_ids[start : start + size]


# --- The score set of the what-if -----------------------------------------------------------


def _create_set(score_set: ScoreSet, definition: ScoringDefinition, today: date) -> ScoreSet:
    # Retired, because a workspace can have only one current set and one that is being built.
    preview_set = ScoreSet.objects.create(
        product_id=score_set.product_id,
        workspace_id=score_set.workspace_id,
        state=ScoreSet.State.RETIRED,
        lookback_days=definition.lookback_days,
        half_life_days=definition.half_life_days,
        default_weight=definition.default_weight,
        audience=definition.audience,
        seats=score_set.seats,
        scored_day=today,
        reference_day=today,
    )
    event_names = EventName.objects.filter(
        product_id=preview_set.product_id, name__in=definition.weights
    )
    ScoredEvent.objects.bulk_create(
        ScoredEvent(
            score_set=preview_set, event_name=event_name, weight=definition.weights[event_name.name]
        )
        for event_name in event_names
    )
    return preview_set


_BENCHMARK: LiteralString = """
    SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY raw) FROM {table}
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s AND raw > 0
      AND (event_count > 0 OR NOT %(active)s)
      AND (%(sample)b::bigint[] IS NULL OR {id_column} = ANY(%(sample)b::bigint[]))
"""


def _compare(
    score_set: ScoreSet, preview_set: ScoreSet, kind: SubjectKind, selection: _Selection
) -> RankingPreview:
    ((benchmark,),) = sql.fetch(
        _BENCHMARK.format(table=kind.engagement_table, id_column=kind.id_column),
        {
            "product": preview_set.product_id,
            "score_set": preview_set.pk,
            "sample": selection.sample,
            "active": preview_set.half_life_days is not None,
        },
    )
    now, then = _ranks(score_set, kind), _ranks(preview_set, kind)
    is_exact = selection.sample is None
    return RankingPreview(
        _top(score_set, kind, kind.benchmark(score_set), then),
        _top(preview_set, kind, benchmark, now),
        None if is_exact else len(selection.ids),
        _count_members(preview_set, kind) if is_exact else {},
        len(dict(now.items() ^ then.items())) if is_exact else None,
    )


def _count_members(preview_set: ScoreSet, kind: SubjectKind) -> dict[int, int]:
    """The members of the workspace's segments of the kind, all of whose subjects are scored."""
    benchmarks.set_from_rows(preview_set, kind)
    past_benchmarks.set_compared(preview_set, kind)
    segments = Segment.objects.filter(workspace=preview_set.workspace_id, scope=kind.scope)
    return members.count_members_by_segment(preview_set, segments)


# --- Ranking --------------------------------------------------------------------------------


def _ranked(score_set: ScoreSet, kind: SubjectKind) -> QuerySet[Any]:
    return kind.engagement_rows(score_set).filter(raw__gt=0).order_by("-raw", f"-{kind.id_column}")


def _ranks(score_set: ScoreSet, kind: SubjectKind) -> dict[int, int]:
    ids = _ranked(score_set, kind).values_list(kind.id_column, flat=True)[:SCORE_ALL_UP_TO]
    return {id: rank for rank, id in enumerate(ids, 1)}


def _top(
    score_set: ScoreSet,
    kind: SubjectKind,
    benchmark: float | None,
    other_ranks: Mapping[int, int],
) -> list[RankedSubject]:
    rows = _ranked(score_set, kind).select_related(kind.scope)
    rows = rows.defer(f"{kind.path}trait_stamps")[:RANKS_SHOWN]
    return [
        RankedSubject(
            getattr(row, kind.scope),
            rank,
            rounded_score(row.raw, benchmark),
            other_ranks.get(kind.subject_id(row)),
        )
        for rank, row in enumerate(rows, 1)
    ]
