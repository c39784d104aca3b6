"""Changes as sections with rows of text, alike on pages, in emails, and in chats."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from django.urls import reverse
from django.utils.http import urlencode

from access.pages.subject_urls import WORKSPACE_PARAM, subject_list_url
from engagement.insight_kinds import INSIGHTS, InsightKind, Severity
from trends.changes import texts
from trends.changes.results import BeganAlarms, ChangedAccount, Changes, Due, Listed, Moved

# An account, and the kind of its alarm.
Began: TypeAlias = tuple[int, InsightKind]
Tone: TypeAlias = Literal["good", "bad", ""]


class Row(NamedTuple):
    """Who changed, and how. *value* is a word or two, and *text* sentences. *score* is from 0 to
    100, for a bar; *path* is a page of the admin."""

    name: str
    path: str
    text: str = ""
    value: str = ""
    score: float | None = None
    change: str = ""
    tone: Tone = ""


class Chip(NamedTuple):
    """How many of a section are of one kind, with the path of their list."""

    label: str
    number: int
    path: str
    severity: Severity


@dataclass(frozen=True)
class Section:
    """*count* is that of all rows; None if nobody knows. *path* is a list of them all."""

    title: str
    count: int | None
    rows: Sequence[Row]
    path: str = ""
    chips: Sequence[Chip] = ()

    @property
    def more(self) -> int:
        """How many are not among the rows."""
        return max(0, (self.count or 0) - len(self.rows))


@dataclass(frozen=True)
class Places:
    """Where the pages are: of a workspace, and of its lists, with what narrows them."""

    workspace_id: int
    query: Mapping[str, str]

    def account(self, account: ChangedAccount) -> str:
        page = reverse("admin:engagement_account_change", args=[account.id])
        return f"{page}?{urlencode({WORKSPACE_PARAM: self.workspace_id})}"

    def accounts(self, page: str = "changelist", **query: str) -> str:
        """The list of accounts, or its file (the page "export")."""
        own = {WORKSPACE_PARAM: str(self.workspace_id), **self.query, **query}
        return f"{reverse(f'admin:engagement_account_{page}')}?{urlencode(own)}"

    def workspace(self, view: str) -> str:
        return reverse(f"admin:engagement_workspace_{view}", args=[self.workspace_id])


@dataclass(frozen=True)
class Block:
    """All that changed, as text. *basis* says what scores are compared with."""

    title: str
    period: str
    summary: str
    sections: Sequence[Section]
    basis: str


def describe(
    changes: Changes, places: Places, most: int = 5, alerts: Collection[Began] | None = None
) -> Block:
    """Sections have *most* rows at most. *alerts* are alarms that began and that the page names by
    itself, as it does how many there are by kind: only the others follow."""
    is_day = changes.period.days == 1
    return Block(
        title=f"What changed {'that day' if is_day else 'this week'}",
        period=texts.format_period(changes.period),
        summary=texts.summary(changes),
        sections=sections(changes, places, most, alerts),
        basis=f"Of complete UTC days. Scores moved over {changes.lookback_days} days.",
    )


def sections(
    changes: Changes, places: Places, most: int, alerts: Collection[Began] | None = None
) -> list[Section]:
    """Those with anything to say."""
    began = _began(changes.began, places, most, alerts)
    return [
        section
        for section in (began, *_sections(changes, places, most))
        if section.rows or section.count or section.chips
    ]


def _began(
    began: BeganAlarms, places: Places, most: int, alerts: Collection[Began] | None
) -> Section:
    first = [each for each in began.first if (each.account.id, each.insight) not in (alerts or ())]
    rows = [
        Row(each.account.name, places.account(each.account), each.text, tone=_tone(each.insight))
        for each in first[:most]
    ]
    if alerts is not None:
        title = "Other alarms that began" if alerts else "Alarms that began"
        # An account may have several alarms of a kind, and *first* may not have all.
        rest = (began.count or 0) - max(len(alerts), len(began.first) - len(first))
        return Section(title, max(0, rest), rows)
    chips = [
        Chip(INSIGHTS[kind].label, count, places.accounts(insight=kind), INSIGHTS[kind].severity)
        for kind, count in began.by_insight.items()
    ]
    return Section("Alarms that began", began.count, rows, chips=chips)


def _sections(changes: Changes, places: Places, most: int) -> Iterator[Section]:
    ended = changes.ended
    yield Section(
        "Alarms that ended",
        ended.count,
        [
            Row(
                each.account.name,
                places.account(each.account),
                f"{INSIGHTS[each.insight].label} since {texts.format_day(each.since)}. {each.text}",
            )
            for each in ended.first[:most]
        ],
    )
    order = "change_complete_days"
    yield _moved("Scores that fell most", changes.fell, places, most, places.accounts(sort=order))
    up = places.accounts(sort=f"-{order}")
    yield _moved("Scores that rose most", changes.rose, places, most, up)
    new = places.accounts(sort="-first_seen")
    yield _moved("New accounts", changes.new, places, most, new)
    yield Section(
        "Segments",
        None,
        [
            Row(
                each.name,
                subject_list_url(_scope(each.scope), places.workspace_id, each.id),
                value=f"{each.entered:,} entered, {each.left:,} left",
            )
            for each in changes.segments[:most]
        ],
    )
    evaluations = places.workspace("chances")
    yield _due("Evaluations that end soon", changes.evaluations, "buy", places, most, evaluations)
    renewals = places.workspace("forecast")
    yield _due("Renewals that are due", changes.renewals, "renew", places, most, renewals)


def _scope(scope: str) -> Literal["user", "account"]:
    return "user" if scope == "user" else "account"


def _tone(kind: InsightKind) -> Tone:
    return "good" if INSIGHTS[kind].severity == "good" else "bad"


def _moved(title: str, moved: Listed[Moved], places: Places, most: int, path: str) -> Section:
    rows = [
        Row(
            each.account.name,
            places.account(each.account),
            score=each.score,
            change=_change(each.change),
            tone="" if not each.change else "good" if each.change > 0 else "bad",
        )
        for each in moved.first[:most]
    ]
    return Section(title, moved.count, rows, path)


def _change(change: float | None) -> str:
    # A minus sign is as wide as a plus.
    return "" if change is None else f"{change:+.1f}".replace("-", "\N{MINUS SIGN}")


def _due(title: str, due: Listed[Due], verb: str, places: Places, most: int, path: str) -> Section:
    rows = [
        Row(
            each.account.name,
            places.account(each.account),
            _describe_chance(each, verb),
            _describe_due(each),
        )
        for each in due.first[:most]
    ]
    return Section(title, due.count, rows, path)


def _describe_due(due: Due) -> str:
    day = texts.format_day(due.day)
    if due.seats is None:
        return day
    return f"{day}, {'1 seat' if due.seats == 1 else f'{due.seats:,} seats'}"


def _describe_chance(due: Due, verb: str) -> str:
    """Empty for the average of all, which says nothing of the account."""
    if due.chance is None or due.is_share:
        return ""
    estimate = due.chance
    return (
        f"{estimate.percent} likely to {verb} ({estimate.percent_range}), by "
        f"{estimate.outcomes:,} past cases."
    )
