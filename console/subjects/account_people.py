"""The people of an account: its most active, new, and lapsed users, and all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import F, FilteredRelation, Q, QuerySet
from django.http import QueryDict

from access.pages.subject_urls import subject_url
from engagement.models import Account, DailyCount, ScoreSet, User
from engagement.scores import people
from engagement.scores.insight_texts import format_percent
from engagement.scores.metrics import compute_scores
from engagement.scores.people import Group, People, PersonPoints
from engagement.scores.raw import USERS_SEEN_WITHIN_DAYS

# Names the chosen group of people.
PEOPLE_PARAM = "people"
PEOPLE_SHOWN = 25
ALL = "all"
_LABELS = {"active": "Active", "came": "New", "quiet": "Gone quiet", ALL: "All"}
_EMPTY = {
    "active": "Nobody was active in this period.",
    "came": "Everyone who is active was active in the previous period, too.",
    "quiet": "Everyone who was active in the previous period still is.",
    ALL: "This account has no users.",
}


@dataclass(frozen=True)
class Tab:
    """A group of people, with the link that shows it."""

    label: str
    count: int
    url: str
    is_current: bool


@dataclass(frozen=True)
class PersonRow:
    """A user with the score in the workspace. ``share`` is of the account's points.

    ``is_gone`` says that the user is in another account now.
    """

    name: str
    url: str
    detail: str
    share: str
    score: str
    change: float | None
    last_active_at: datetime | None
    is_gone: bool


@dataclass(frozen=True)
class PeopleTable:
    tabs: Sequence[Tab]
    rows: Sequence[PersonRow]
    sentence: str
    # What the table says if it is empty.
    empty: str
    # The number of people who are not listed.
    more: int
    days: int = USERS_SEEN_WITHIN_DAYS


def requested_group(query: QueryDict) -> str:
    """The group that the page's *query* asks for; empty for none, and for what is no group."""
    name = query.get(PEOPLE_PARAM, "")
    return name if name in _LABELS else ""


def listed_group(group: str) -> Group:
    """The group whose people the page needs by their points."""
    return group if group in ("came", "quiet") else "active"  # type: ignore[return-value]


def people_table(
    account: Account, score_set: ScoreSet, active_people: People, total: int, query: QueryDict
) -> PeopleTable:
    """The account's people of the requested group, of whom ``active_people`` has those with points.

    ``total`` is the number of all its users.
    """
    counts = {
        "active": active_people.active,
        "came": active_people.came,
        "quiet": active_people.quiet,
        ALL: total,
    }
    group = requested_group(query)
    if not group:
        group = next((name for name in ("active", "quiet") if counts[name]), ALL)
        if group == "quiet":
            active_people = people.account_activity(
                score_set, account.pk, "quiet", PEOPLE_SHOWN
            ).people
    rows = (
        _all_people(account, score_set)
        if group == ALL
        else _person_rows(account, score_set, active_people)
    )
    return PeopleTable(
        tabs=[
            Tab(label, counts[name], _tab_url(query, name), name == group)
            for name, label in _LABELS.items()
        ],
        rows=rows,
        sentence=_sentence(active_people, score_set.lookback_days),
        empty=_EMPTY[group],
        more=max(0, counts[group] - len(rows)),
    )


def _tab_url(query: QueryDict, name: str) -> str:
    changed = query.copy()
    changed[PEOPLE_PARAM] = name
    return f"?{changed.urlencode()}#people"


def _sentence(people: People, days: int) -> str:
    """How many went quiet, and how many came."""
    period = "day" if days == 1 else f"{days} days"
    before = "on the day before yesterday" if days == 1 else f"in the {days} days before"
    if not people.before and not people.active:
        return f"Nobody was active in the last {period} or {before}."
    if not people.before:
        return f"Nobody was active {before}."
    went = "has gone quiet" if people.quiet == 1 else "have gone quiet"
    return (
        f"{people.quiet:,} of the {people.before:,} people who were active {before} {went}; "
        f"{people.came:,} came."
    )


def _person_rows(account: Account, score_set: ScoreSet, people: People) -> list[PersonRow]:
    users = _with_scores(User.objects.filter(product=account.product_id), score_set)
    by_id = users.in_bulk([person.user_id for person in people.rows])
    return [
        _person_row(by_id[person.user_id], account, score_set, _share(person, people))
        for person in people.rows
        if person.user_id in by_id
    ]


def _share(person: PersonPoints, people: People) -> str:
    return format_percent(person.points / people.points) if person.points else "–"


def _all_people(account: Account, score_set: ScoreSet) -> list[PersonRow]:
    """The account's users, and those with an event in it in the last 90 days, best scores first.

    With an audience, only the users in it.
    """
    assert score_set.scored_day is not None, "A published set has been scored."
    product = account.product_id
    members = User.objects.filter(product=product, account=account, is_identified=True).values("id")
    recent = _recent_counts(account, score_set.scored_day).values("user_id")
    users = User.objects.filter(product=product, pk__in=members.union(recent))
    ranked = _with_scores(users, score_set)
    if score_set.audience:
        ranked = ranked.filter(ranked__isnull=False)
    # Only the shown rows are read with their traits.
    first = ranked.order_by(F("ranked__raw").desc(nulls_last=True), "-id")
    ids = list(first.values_list("pk", flat=True)[:PEOPLE_SHOWN])
    by_id = _with_scores(User.objects.filter(product=product), score_set).in_bulk(ids)
    return [_person_row(by_id[id], account, score_set, "") for id in ids]


def _recent_counts(account: Account, today: date) -> QuerySet[DailyCount]:
    """Daily counts of identified users, over the days in which an event makes one a user of it."""
    days = (today - timedelta(days=USERS_SEEN_WITHIN_DAYS - 1), today)
    return DailyCount.objects.filter(
        product=account.product_id, account_id=account.pk, day__range=days, user__is_identified=True
    )


def _with_scores(users: QuerySet[User], score_set: ScoreSet) -> QuerySet[Any]:
    annotated: QuerySet[Any] = users.defer("trait_stamps").annotate(
        ranked=FilteredRelation("engagements", condition=Q(engagements__score_set=score_set)),
        **{name: F(f"ranked__{name}") for name in _SCORE_COLUMNS},
    )
    return annotated


# What a user's scores are computed from, and when they were last active.
_SCORE_COLUMNS = (
    *("raw", "raw_yesterday", "raw_last_period", "raw_yesterday_last_period"),
    "last_active_at",
)


def _person_row(user: Any, account: Account, score_set: ScoreSet, share: str) -> PersonRow:
    score, change = "–", None
    if user.raw is not None:
        scores = compute_scores(user, score_set)
        score, change = f"{scores.now:.1f}", scores.complete_change
    return PersonRow(
        name=user.name or user.external_id,
        url=subject_url(user, "user", score_set.workspace_id),
        detail=user.email or (user.external_id if user.name else ""),
        share=share,
        score=score,
        change=change,
        last_active_at=user.last_active_at,
        is_gone=user.account_id != account.pk,
    )
