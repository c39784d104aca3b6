"""What a workspace's ranking would be under another definition: tried out, and rolled back.

The numbers are those that scoring computes, in a set of scores that nobody else ever sees.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, timedelta
from typing import Any, LiteralString, NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from engagement.database import sql
from engagement.metric_names import BOTH_SCOPES, Scope
from engagement.models import Account, EventName, ScoredEvent, ScoreSet, User
from engagement.scores import raw, sampling
from engagement.scores.formula import rounded_score
from engagement.segments import counts, members

RANKS_SHOWN = 10
# Of up to so many users or accounts all are scored; of more, those that rank highest now, and
# others picked evenly, who also say where the benchmark would be.
SCORE_ALL_UP_TO = 5_000
TOP_USERS, SAMPLE_SIZE = 1_000, 1_000
# An account costs what its users cost together: the highest of 1,000,000 take 70 ms each.
TOP_ACCOUNTS = 200
# So many are scored in one statement, and no more users for the sake of accounts.
USERS_PER_STEP, ACCOUNTS_PER_STEP, MAX_USERS_OF_ACCOUNTS = 1_000, 50, 5_000


class ScoringDefinition(NamedTuple):
    """What a workspace scores: ``weights`` by the names of events."""

    lookback_days: int
    default_weight: int
    audience: dict[str, Any]
    weights: Mapping[str, int]


class RankedSubject(NamedTuple):
    """A subject's rank and score. ``other_rank`` is the one that it has on the other side; None
    where it has none there, or one behind all that were looked at."""

    subject: User | Account
    rank: int
    score: float
    other_rank: int | None


class RankingPreview(NamedTuple):
    """The highest of a scope now and under the definition. ``looked_at`` is the number of subjects
    that were scored for it; None where it was all, and the numbers are exact."""

    now: list[RankedSubject]
    with_change: list[RankedSubject]
    sample_size: int | None


def scoring_definition(score_set: ScoreSet) -> ScoringDefinition:
    """The definition under which the set is computed."""
    weights = score_set.weights.values_list("event_name_id", "weight")
    names = EventName.objects.in_bulk([name_id for name_id, _ in weights])
    return ScoringDefinition(
        score_set.lookback_days,
        score_set.default_weight,
        score_set.audience,
        {names[name_id].name: weight for name_id, weight in weights if name_id in names},
    )


def current_ranking(score_set: ScoreSet) -> dict[Scope, list[RankedSubject]]:
    """The ranking's beginning as it is."""
    return {
        scope: _top(score_set, scope, _benchmark(score_set, scope), {}) for scope in BOTH_SCOPES
    }


def preview_ranking(
    score_set: ScoreSet, definition: ScoringDefinition, today: date, out_of_time: Callable[[], bool]
) -> dict[Scope, RankingPreview]:
    """How the set's rankings would change if the workspace were defined so.

    Accounts are left out where too many users would have to be scored for them, or where there is
    no time for those that they have. Takes no lock that recording or scoring would wait for. Raises
    sql.TookTooLong where *out_of_time* says so before all users are scored.
    """
    users, accounts = _choose(score_set, "user"), _choose(score_set, "account")
    counts_some = bool(definition.audience) and users.picked is not None
    with transaction.atomic():
        trial = _begin(score_set, definition, today)
        # Accounts count the users who have a row.
        theirs = _users_of(trial, accounts.ids, today) if counts_some else []
        if has_accounts := len(theirs) <= MAX_USERS_OF_ACCOUNTS:
            users.ids.update(theirs)
        for some in _in_pieces(users.ids, USERS_PER_STEP):
            if out_of_time():
                raise sql.StatementTimeout
            raw.score_users(trial, some, today)
        rankings: dict[Scope, RankingPreview] = {"user": _compared(score_set, trial, "user", users)}
        if has_accounts and _score_accounts(trial, accounts.ids, today, out_of_time):
            rankings["account"] = _compared(score_set, trial, "account", accounts)
        # Nobody has seen the set, and nobody shall.
        transaction.set_rollback(True)
    return rankings


# --- Who is scored --------------------------------------------------------------------------


class _Chosen(NamedTuple):
    """Who is scored for a trial; ``picked`` are those that stand for all, None where it is all."""

    ids: set[int]
    picked: list[int] | None


def _choose(score_set: ScoreSet, scope: Scope) -> _Chosen:
    model = User if scope == "user" else Account
    known = model._default_manager.filter(product_id=score_set.product_id, is_identified=True)
    ids = set(known.order_by("external_id").values_list("id", flat=True)[: SCORE_ALL_UP_TO + 1])
    if len(ids) <= SCORE_ALL_UP_TO:
        return _Chosen(ids, None)
    widest = _widest(score_set)
    totals = counts.subject_totals([widest])[widest.pk]
    total = totals.users if scope == "user" else totals.accounts
    picked = sampling.sample_subjects(widest, scope, total, SAMPLE_SIZE).ids
    highest = TOP_USERS if scope == "user" else TOP_ACCOUNTS
    ranked = _ranked(score_set, scope).values_list(f"{scope}_id", flat=True)[:highest]
    return _Chosen({*picked, *ranked}, picked)


def _widest(score_set: ScoreSet) -> ScoreSet:
    """The current set of the product that is about everybody, if there is one."""
    current = ScoreSet.objects.filter(product_id=score_set.product_id, state=ScoreSet.State.CURRENT)
    return current.filter(audience={}).select_related("cached_counts").first() or score_set


_USERS_OF: LiteralString = f"""
    SELECT DISTINCT user_id FROM engagement_dailycount
    WHERE product_id = {sql.PRODUCT} AND account_id = ANY(%(accounts)b::bigint[])
      AND day BETWEEN %(seen_from)s AND %(today)s
    LIMIT %(limit)s
"""


def _users_of(trial: ScoreSet, account_ids: Collection[int], today: date) -> list[int]:
    """Those whose events the accounts' numbers are made of; one more than are scored at most."""
    found = sql.fetch(
        _USERS_OF,
        {
            "product": trial.product_id,
            "accounts": list(account_ids),
            "seen_from": today - timedelta(days=raw.USERS_SEEN_WITHIN_DAYS - 1),
            "today": today,
            "limit": MAX_USERS_OF_ACCOUNTS + 1,
        },
    )
    return [id for (id,) in found]


def _score_accounts(
    trial: ScoreSet, ids: Collection[int], today: date, out_of_time: Callable[[], bool]
) -> bool:
    """Score the accounts; whether there was time for all of them."""
    for some in _in_pieces(ids, ACCOUNTS_PER_STEP):
        if out_of_time():
            return False
        raw.score_accounts(trial, some, today)
    return True


def _in_pieces(ids: Collection[int], at_once: int) -> Iterator[Collection[int]]:
    every = sorted(ids)
    for start in range(0, len(every), at_once):
        yield every[start : start + at_once]


# --- The set that is tried out --------------------------------------------------------------


def _begin(score_set: ScoreSet, definition: ScoringDefinition, today: date) -> ScoreSet:
    # Retired, because a workspace has one set that is current and one that is being built.
    trial = ScoreSet.objects.create(
        product_id=score_set.product_id,
        workspace_id=score_set.workspace_id,
        state=ScoreSet.State.RETIRED,
        lookback_days=definition.lookback_days,
        default_weight=definition.default_weight,
        audience=definition.audience,
        scored_day=today,
    )
    known = EventName.objects.filter(product_id=trial.product_id, name__in=definition.weights)
    ScoredEvent.objects.bulk_create(
        ScoredEvent(score_set=trial, event_name=one, weight=definition.weights[one.name])
        for one in known
    )
    return trial


_TAKE: LiteralString = """
    SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY raw) FROM {table}
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s AND raw > 0
      AND (%(picked)b::bigint[] IS NULL OR {subject} = ANY(%(picked)b::bigint[]))
"""
_TAKE_OF: dict[Scope, LiteralString] = {
    "user": _TAKE.format(table="engagement_userengagement", subject="user_id"),
    "account": _TAKE.format(table="engagement_accountengagement", subject="account_id"),
}


def _compared(
    score_set: ScoreSet, trial: ScoreSet, scope: Scope, chosen: _Chosen
) -> RankingPreview:
    of = {"product": trial.product_id, "score_set": trial.pk, "picked": chosen.picked}
    ((benchmark,),) = sql.fetch(_TAKE_OF[scope], of)
    now, then = _ranks(score_set, scope), _ranks(trial, scope)
    return RankingPreview(
        _top(score_set, scope, _benchmark(score_set, scope), then),
        _top(trial, scope, benchmark, now),
        None if chosen.picked is None else len(chosen.ids),
    )


# --- Ranking --------------------------------------------------------------------------------


def _ranked(score_set: ScoreSet, scope: Scope) -> QuerySet[Any]:
    active = members.engagement_rows(score_set, scope).filter(raw__gt=0)
    return active.order_by("-raw", f"-{scope}_id")


def _ranks(score_set: ScoreSet, scope: Scope) -> dict[int, int]:
    ids = _ranked(score_set, scope).values_list(f"{scope}_id", flat=True)[:SCORE_ALL_UP_TO]
    return {id: rank for rank, id in enumerate(ids, 1)}


def _top(
    score_set: ScoreSet, scope: Scope, benchmark: float | None, other: Mapping[int, int]
) -> list[RankedSubject]:
    rows = _ranked(score_set, scope).select_related(scope).defer(f"{scope}__trait_stamps")
    places = []
    for rank, row in enumerate(rows[:RANKS_SHOWN], 1):
        subject = getattr(row, scope)
        score = rounded_score(row.raw, benchmark)
        places.append(RankedSubject(subject, rank, score, other.get(subject.pk)))
    return places


def _benchmark(score_set: ScoreSet, scope: Scope) -> float | None:
    benchmark: float | None = getattr(score_set, f"{scope}_benchmark")
    return benchmark
