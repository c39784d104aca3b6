"""The columns of the lists of users and accounts: what a page and its CSV file hold of a row.

Their labels, orders, and values are those of ``engagement.orders.columns``, as in scheduled exports
(``exports/tables.py``). A page has cells.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from typing import Any, TypeAlias

from django.templatetags.static import static
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from access.pages.subject_urls import WORKSPACE_PARAM, subject_url
from console.lists.filters import LICENSE_TYPES
from core.charts import spark
from core.time_format import format_ago
from engagement.insight_kinds import ACTIVITY_LABELS, INSIGHTS, REASON_LABELS, InsightKind
from engagement.license_traits import (
    LICENSE_STATUS_TRAIT,
    LICENSE_TYPE_TRAIT,
    MAINTENANCE_END_TRAIT,
    TIER_TRAIT,
)
from engagement.metric_names import BOTH_SCOPES, Scope
from engagement.models import ScoreSet
from engagement.models.subjects import EXTERNAL_ID_LENGTH
from engagement.money import MRR_TRAIT, format_cents, mrr_of
from engagement.orders.columns import (
    CHANCE_COLUMNS,
    COLUMNS,
    TRAIT_PREFIX,
    Column,
    Facts,
    activity_of,
    shown_account,
    trait_column,
    trait_text,
)
from engagement.rules.rules import ChanceName
from engagement.rules.texts import license_event_label
from engagement.scopes import ACCOUNTS, SubjectKind
from engagement.scores.insights import EVALUATION, account_facts
from engagement.scores.metrics import compute_scores
from engagement.segments.activation import shown_steps
from engagement.segments.chances import shown_chance
from engagement.trait_days import parse_trait_day

# A name, a domain, or a license is whole on a page. A longer text is none of them, and could fill
# megabytes. The value of a trait in a column of its own may be prose.
MAX_TEXT_LENGTH, MAX_TRAIT_LENGTH = EXTERNAL_ID_LENGTH, 200
# Insights of a row.
MAX_ICONS = 2
ICONS = "config/icons.svg"


@dataclass(frozen=True)
class RowContext:
    """What the cells of all rows need. *histories* has the scores of the last days by subject id,
    except for subjects with too many counts, whose lines are loaded later. *insights* has those of
    accounts. *back* is the query of the list, for the way back from a row's page. *features* is the
    number of the product's, and *owners* what people call logins. Rows can be chosen by people who
    *may_work* on them."""

    score_set: ScoreSet
    kind: SubjectKind
    now: datetime
    histories: Mapping[int, Sequence[float]] = field(default_factory=dict)
    insights: Mapping[int, Sequence[InsightKind]] = field(default_factory=dict)
    back: str = ""
    features: int = 0
    owners: Mapping[str, str] = field(default_factory=dict)
    may_work: bool = False

    def subject(self, row: Any) -> Any:
        return getattr(row, self.kind.scope)


def cut(text: str, length: int = MAX_TEXT_LENGTH) -> str:
    return f"{text[:length]}…" if len(text) > length else text


Cell: TypeAlias = Callable[[Any, RowContext], str | SafeString]


@dataclass(frozen=True)
class ListColumn:
    """*parts* are its columns in a file. *sort* is empty if nobody can sort by it.
    *first_descends* says which direction comes first."""

    name: str
    label: str
    cell: Cell
    parts: Sequence[Column] = ()
    scopes: tuple[Scope, ...] = BOTH_SCOPES
    sort: str = ""
    first_descends: bool = True

    @property
    def css(self) -> str:
        """The end of the class of its cells."""
        return "trait" if self.name.startswith(TRAIT_PREFIX) else self.name


def default_columns(scope: Scope, *, of_activity: bool = False) -> list[str]:
    """*of_activity* is for a list that activity filters: its accounts say since when."""
    if scope == "user":
        return ["name", "score", "change", "history", "account", "last_active"]
    changes = ["activity"] if of_activity else ["change", "history"]
    return ["name", "score", *changes, "active_users", "last_active", "license", "renewal"]


def choosable_columns(scope: Scope) -> list[ListColumn]:
    """The columns that a person can choose, besides the name and traits."""
    return [each for each in _COLUMNS.values() if scope in each.scopes and each.name != "name"]


def list_columns(
    names: Sequence[str], scope: Scope, *, of_activity: bool = False
) -> list[ListColumn]:
    """The columns with these names, or the default ones. The name is always the first.

    Leaves out unknown names.
    """
    choices = {column.name: column for column in choosable_columns(scope)}
    names = names or default_columns(scope, of_activity=of_activity)
    if "renewal" in names and "license" in choices:
        # Each fact is in one of the two columns.
        choices["license"] = _LICENSE_ALONE
    columns = [_COLUMNS["name"]]
    for name in names:
        if _is_trait(name):
            columns.append(_trait_column(name))
        elif name in choices:
            columns.append(choices[name])
    return columns


def unknown_columns(names: Sequence[str], scope: Scope) -> list[str]:
    """Those of the names that no column has."""
    columns = {"name", *(column.name for column in choosable_columns(scope))}
    return [name for name in names if name not in columns and not _is_trait(name)]


def _is_trait(name: str) -> bool:
    return name.startswith(TRAIT_PREFIX) and name != TRAIT_PREFIX


# --- Cells ----------------------------------------------------------------------------------


def _name(row: Any, context: RowContext) -> SafeString:
    subject = context.subject(row)
    url = subject_url(subject, context.kind.scope, context.score_set.workspace_id)
    detail = cut(subject.trait_text(_detail_trait(context)) or "")
    name = cut(subject.name or subject.external_id)
    box = '<input type="checkbox" form="work" name="account" value="{}" aria-label="Choose {}">'
    return format_html(
        '{}<a href="{}{}">{}</a>{}<button data-copy-text="{}" aria-label="Copy id"></button>{}',
        format_html(box, subject.pk, name) if context.may_work else "",
        url,
        context.back,
        name,
        _insight_icons(context.insights.get(subject.pk, ())),
        subject.external_id,
        format_html("<small>{}</small>", detail) if detail else "",
    )


def _insight_icons(kinds: Sequence[InsightKind]) -> SafeString:
    """The most serious ones. The page of the account has their sentences."""
    return format_html_join(
        "",
        ' <svg class="eds-icon eds-{}" role="img"><title>{}</title><use href="{}#{}"/></svg>',
        (
            (INSIGHTS[kind].severity, INSIGHTS[kind].label, static(ICONS), kind)
            for kind in kinds[:MAX_ICONS]
        ),
    )


def _detail_trait(context: RowContext) -> str:
    return "email" if context.kind.scope == "user" else "domain"


def _score(row: Any, context: RowContext) -> SafeString:
    score = compute_scores(row, context.score_set).now
    return format_html(
        '{}<progress max="100" value="{}" aria-hidden="true"></progress>',
        f"{score:.1f}",
        round(score),
    )


def _change(row: Any, context: RowContext) -> str | SafeString:
    scores = compute_scores(row, context.score_set)
    # Its order has new accounts last, too.
    if context.kind is ACCOUNTS and account_facts(context.score_set, row, scores).is_new:
        return "New"
    change = scores.complete_change
    if not change:
        return "–" if change is None else "0.0"
    # The style sheet adds a triangle.
    sign, css = ("+", "eds-rise") if change > 0 else ("\N{MINUS SIGN}", "eds-fall")
    return format_html('<span class="{}">{}{}</span>', css, sign, f"{abs(change):.1f}")


def _history(row: Any, context: RowContext) -> str | SafeString:
    subject_id = context.kind.subject_id(row)
    if subject_id in context.histories:
        return spark(context.histories[subject_id], top=100)
    # The script of parts loads it.
    page = reverse(f"admin:engagement_{context.kind.scope}_line", args=[subject_id])
    return format_html(
        '<div data-part-url="{}?{}={}">…</div>',
        page,
        WORKSPACE_PARAM,
        context.score_set.workspace_id,
    )


def _active_users(row: Any, context: RowContext) -> SafeString:
    return format_html("{} <small>of {}</small>", f"{row.active_users:,}", f"{row.total_users:,}")


def _activity(row: Any, context: RowContext) -> str | SafeString:
    activity = activity_of(row)
    label = ACTIVITY_LABELS[activity.state].capitalize()
    if activity.reason:
        return format_html("{} <small>{}</small>", label, REASON_LABELS[activity.reason])
    if activity.since is None:
        return label
    return format_html("{} <small>since {}</small>", label, date_format(activity.since, "j M Y"))


def _account(row: Any, context: RowContext) -> str | SafeString:
    account = shown_account(row.user)
    if account is None:
        return "–"
    url = subject_url(account, "account", context.score_set.workspace_id)
    return format_html('<a href="{}">{}</a>', url, cut(account.name or account.external_id))


def _last_active(row: Any, context: RowContext) -> str | SafeString:
    return format_ago(row.last_active_at, context.now) if row.last_active_at else "Never"


def _first_seen(row: Any, context: RowContext) -> SafeString:
    return format_ago(context.subject(row).first_seen_at, context.now)


def _license_event(row: Any, context: RowContext) -> str | SafeString:
    event = row.last_license_event
    if event is None:
        return "–"
    day = date_format(date.fromisoformat(event["date"]), "j M Y")
    return format_html("{} <small>{}</small>", license_event_label(event["type"]), day)


def _features_in_use(row: Any, context: RowContext) -> SafeString:
    return format_html("{} <small>of {}</small>", row.features_in_use, context.features)


def _owner(row: Any, context: RowContext) -> str:
    return context.owners.get(row.owner, row.owner or "–")


def _tags(row: Any, context: RowContext) -> str:
    return ", ".join(sorted(row.tags or (), key=str.casefold)) or "–"


def _steps(row: Any, context: RowContext) -> str | SafeString:
    steps = shown_steps(row.steps_done)
    if steps is None:
        return "–"
    if steps.next_step is None:
        day = steps.activated_on
        return _two_lines(("Activated",), (date_format(day, "j M Y") if day else "",))
    is_stuck = steps.state(context.now.date()) == "stuck"
    return format_html(
        "{} of {} <small>{}{}</small>",
        steps.reached,
        len(steps.steps),
        "stuck at " if is_stuck else "next: ",
        steps.next_step.name,
    )


def _chance(row: Any, context: RowContext, name: ChanceName) -> str | SafeString:
    chance = shown_chance(row.account_chances, name)
    if chance is None:
        return "–"
    if chance.is_share:
        return "Too few to tell"
    interval = f"({chance.low} to {chance.high}%)"
    return format_html("{}% <small>{}</small>", chance.percent, interval)


# A line does not begin with it.
_SEPARATOR = "\N{NO-BREAK SPACE}· "


def _license(row: Any, context: RowContext, *, with_end: bool = True) -> str | SafeString:
    """The license in two lines, the second with its status, and *with_end* that day."""
    traits = context.subject(row)
    kind = traits.trait_text(LICENSE_TYPE_TRAIT) or ""
    tier = traits.trait_text(TIER_TRAIT) or ""
    status = traits.trait_text(LICENSE_STATUS_TRAIT) or ""
    # An evaluation's tier may say no more than its type.
    tier = "" if tier.lower() == kind.lower() else tier
    kind = LICENSE_TYPES.get(kind, kind)
    if not with_end:
        # What renews is active.
        return _two_lines((kind,), (tier, "" if status.lower() == "active" else status))
    day = _end_of(row, context)
    end = f"{_verb_of_end(row, context, day)} {date_format(day, 'j M Y')}" if day else ""
    return _two_lines((kind, tier), (status, end))


def _two_lines(*lines: Sequence[str]) -> str | SafeString:
    first, second = (cut(_SEPARATOR.join(filter(None, parts))) for parts in lines)
    if not first or not second:
        return first or second or "–"
    return format_html("{} <small>{}</small>", first, second)


def _end_of(row: Any, context: RowContext) -> date | None:
    return parse_trait_day(context.subject(row).trait_text(MAINTENANCE_END_TRAIT))


def _verb_of_end(row: Any, context: RowContext, day: date) -> str:
    """What a license does on the day: renew, or end."""
    traits = context.subject(row)
    if day < context.now.date():
        return "ended"
    is_paid = (traits.trait_text(LICENSE_TYPE_TRAIT) or "").lower() != EVALUATION
    is_active = (traits.trait_text(LICENSE_STATUS_TRAIT) or "").lower() in ("", "active")
    return "renews" if is_paid and is_active else "ends"


def _renewal(row: Any, context: RowContext) -> str | SafeString:
    """The day, and below it what happens then, and how far it is."""
    day = _end_of(row, context)
    if day is None:
        return "–"
    days = (day - context.now.date()).days
    text = f"{_verb_of_end(row, context, day)} {from_now(days)}"
    return _two_lines((date_format(day, "j M Y"),), (text,))


def from_now(days: int) -> str:
    """Like "in 3 days", "today", or "4 months ago"."""
    if not days:
        return "today"
    units = (("year", 365), ("month", 30), ("day", 1))
    unit, length = next(each for each in units if abs(days) >= 2 * each[1] or each[1] == 1)
    count = abs(days) // length
    text = f"{count} {unit}{'' if count == 1 else 's'}"
    return f"in {text}" if days > 0 else f"{text} ago"


def _mrr(row: Any, context: RowContext) -> str:
    traits = context.subject(row).traits
    cents = mrr_of(traits)
    if cents is not None:
        return format_cents(cents)
    return cut(trait_text(traits.get(MRR_TRAIT)), MAX_TRAIT_LENGTH) or "–"


def _external_id(row: Any, context: RowContext) -> str:
    return str(context.subject(row).external_id)


def _trait_cell(row: Any, context: RowContext, trait: str) -> str:
    return cut(trait_text(context.subject(row).traits.get(trait)), MAX_TRAIT_LENGTH)


# --- Columns --------------------------------------------------------------------------------


def _listed(name: str, cell: Cell, of: Column, parts: str = "", label: str = "") -> ListColumn:
    """A column with the label and the order of *of*, and these *parts* in a file."""
    in_file = [COLUMNS[part] for part in parts.split()] or [of]
    return ListColumn(name, label or of.label, cell, in_file, of.scopes, of.sort, of.first_descends)


def _trait_column(name: str) -> ListColumn:
    column = trait_column(name)
    return _listed(name, partial(_trait_cell, trait=column.label), column)


_ACCOUNT = "account_tracking_id account_name"
_LICENSE = "license_type license_tier license_status renewal"
_ALL = [
    _listed("name", _name, COLUMNS["name"], "tracking_id name email domain"),
    _listed("score", _score, COLUMNS["score"]),
    _listed("change", _change, COLUMNS["score_change_complete_days"]),
    ListColumn("history", "Last 30 days", _history),
    _listed("active_users", _active_users, COLUMNS["active_users"], "active_users total_users"),
    _listed("activity", _activity, COLUMNS["activity"], "activity activity_since"),
    _listed("account", _account, COLUMNS["account_name"], _ACCOUNT, "Account"),
    _listed("last_active", _last_active, COLUMNS["last_active_at"]),
    _listed("license", _license, COLUMNS["renewal"], _LICENSE, "License"),
    _listed(
        *("license_event", _license_event, COLUMNS["last_license_event"]),
        "last_license_event last_license_event_on",
    ),
    *(
        _listed(
            *(column, partial(_chance, name=name), COLUMNS[column]),
            f"{column} {column}_low {column}_high",
        )
        for column, name in CHANCE_COLUMNS.items()
    ),
    _listed("owner", _owner, COLUMNS["owner"]),
    _listed("tags", _tags, COLUMNS["tags"]),
    _listed("features_in_use", _features_in_use, COLUMNS["features_in_use"]),
    _listed(
        *("activation", _steps, COLUMNS["activated_on"]),
        *("steps_done next_step activated_on", "Activation"),
    ),
    _listed("renewal", _renewal, COLUMNS["renewal"]),
    _listed("mrr", _mrr, COLUMNS["mrr"]),
    _listed("first_seen", _first_seen, COLUMNS["first_seen_at"]),
    ListColumn("external_id", "Id", _external_id),
]
_COLUMNS = {column.name: column for column in _ALL}
# Beside the column of the renewal.
_LICENSE_ALONE = replace(
    _COLUMNS["license"],
    cell=partial(_license, with_end=False),
    parts=_COLUMNS["license"].parts[:-1],
    sort="",
)


# --- Files ----------------------------------------------------------------------------------


def export_heads(columns: Sequence[ListColumn], scope: Scope) -> list[str]:
    return [part.heading for part in _parts(columns, scope)]


def export_values(columns: Sequence[ListColumn], row: Any, context: RowContext) -> list[Any]:
    facts = Facts(row, context.subject(row), compute_scores(row, context.score_set))
    values = [part.value(facts) for part in _parts(columns, context.kind.scope)]
    return [
        value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
        for value in values
    ]


def _parts(columns: Sequence[ListColumn], scope: Scope) -> Iterator[Column]:
    return (part for column in columns for part in column.parts if scope in part.scopes)
