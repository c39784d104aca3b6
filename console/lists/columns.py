"""The columns of the lists of users and accounts: what a page and its CSV file hold of a row.

A column's name is that of its order (``engagement.orders.columns``) where it can be sorted.
Scheduled exports have columns of their own (``exports/tables.py``).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from access.pages.subject_urls import WORKSPACE_PARAM, subject_url
from console.lists.filters import LICENSE_TYPES
from console.lists.sparklines import line
from core.time_format import format_ago
from engagement.license_traits import (
    LICENSE_STATUS_TRAIT,
    LICENSE_TYPE_TRAIT,
    MAINTENANCE_END_TRAIT,
    TIER_TRAIT,
)
from engagement.metric_names import Scope
from engagement.models import ScoreSet
from engagement.models.subjects import EXTERNAL_ID_LENGTH
from engagement.money import MRR_LABEL, MRR_TRAIT, format_cents, mrr_of
from engagement.orders.columns import TRAIT_PREFIX
from engagement.scopes import ACCOUNTS, SubjectKind
from engagement.scores.insights import EVALUATION, account_facts
from engagement.scores.metrics import compute_scores
from engagement.trait_days import parse_trait_day

# A name, a domain, or a license is whole on a page. A longer text is none of them, and could fill
# megabytes. The value of a trait in a column of its own may be prose.
MAX_TEXT_LENGTH, MAX_TRAIT_LENGTH = EXTERNAL_ID_LENGTH, 200


@dataclass(frozen=True)
class RowContext:
    """What the cells of all rows need. *histories* has the scores of the last days by subject id,
    except for subjects with too many counts, whose lines are loaded later. *back* is the query
    of the list, for the way back from a row's page."""

    score_set: ScoreSet
    kind: SubjectKind
    now: datetime
    histories: Mapping[int, Sequence[float]] = field(default_factory=dict)
    back: str = ""

    def subject(self, row: Any) -> Any:
        return getattr(row, self.kind.scope)


def cut(text: str, length: int = MAX_TEXT_LENGTH) -> str:
    return f"{text[:length]}…" if len(text) > length else text


Cell: TypeAlias = Callable[[Any, RowContext], str | SafeString]
Values: TypeAlias = Callable[[Any, RowContext], Sequence[Any]]


@dataclass(frozen=True)
class ListColumn:
    """*heads* and *values* are the columns of the export. *sort* is empty if nobody can sort by it.
    *first_descends* says which direction comes first."""

    name: str
    label: str
    cell: Cell
    heads: Sequence[str] = ()
    values: Values = lambda row, context: ()
    sort: str = ""
    first_descends: bool = True

    @property
    def css(self) -> str:
        """The end of the class of its cells."""
        return "trait" if self.name.startswith(TRAIT_PREFIX) else self.name


def default_columns(scope: Scope) -> list[str]:
    if scope == "user":
        return ["name", "score", "change", "history", "account", "last_active"]
    return ["name", "score", "change", "history", "active_users", "last_active", "license"]


def choosable_columns(scope: Scope) -> list[ListColumn]:
    """The columns that a person can choose, besides the name and traits."""
    other = {"account"} if scope == "account" else {"active_users", "license", "renewal", "mrr"}
    return [column for name, column in _COLUMNS.items() if name not in other | {"name"}]


def list_columns(names: Sequence[str], scope: Scope) -> list[ListColumn]:
    """The columns with these names, or the default ones. The name is always the first.

    Leaves out unknown names.
    """
    choices = {column.name: column for column in choosable_columns(scope)}
    columns = [_COLUMNS["name"]]
    for name in names or default_columns(scope):
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
    return format_html(
        '<a href="{}{}">{}</a><button data-copy-text="{}" aria-label="Copy id"></button>{}',
        url,
        context.back,
        cut(subject.name or subject.external_id),
        subject.external_id,
        format_html("<small>{}</small>", detail) if detail else "",
    )


def _detail_trait(context: RowContext) -> str:
    return "email" if context.kind.scope == "user" else "domain"


def _name_values(row: Any, context: RowContext) -> list[Any]:
    subject = context.subject(row)
    return [subject.external_id, subject.name, subject.trait_text(_detail_trait(context))]


def _score(row: Any, context: RowContext) -> SafeString:
    score = compute_scores(row, context.score_set).now
    return format_html(
        '{}<progress max="100" value="{}" aria-hidden="true"></progress>',
        f"{score:.1f}",
        round(score),
    )


def _score_values(row: Any, context: RowContext) -> list[Any]:
    return [f"{compute_scores(row, context.score_set).now:.1f}"]


def _change(row: Any, context: RowContext) -> str | SafeString:
    scores = compute_scores(row, context.score_set)
    # Its order has new accounts last, too.
    if context.kind is ACCOUNTS and account_facts(context.score_set, row, scores).is_new:
        return "New"
    change = scores.change
    if not change:
        return "0.0"
    # The style sheet adds a triangle.
    sign, css = ("+", "eds-rise") if change > 0 else ("\N{MINUS SIGN}", "eds-fall")
    return format_html('<span class="{}">{}{}</span>', css, sign, f"{abs(change):.1f}")


def _change_values(row: Any, context: RowContext) -> list[Any]:
    return [compute_scores(row, context.score_set).change]


def _history(row: Any, context: RowContext) -> str | SafeString:
    subject_id = context.kind.subject_id(row)
    if subject_id in context.histories:
        return line(context.histories[subject_id])
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


def _account(row: Any, context: RowContext) -> str | SafeString:
    account = _shown_account(row)
    if account is None:
        return "–"
    url = subject_url(account, "account", context.score_set.workspace_id)
    return format_html('<a href="{}">{}</a>', url, cut(account.name or account.external_id))


def _shown_account(row: Any) -> Any:
    account = row.user.account
    return account if account is not None and account.is_identified else None


def _account_values(row: Any, context: RowContext) -> list[Any]:
    account = _shown_account(row)
    return [account.external_id, account.name] if account else ["", ""]


def _last_active(row: Any, context: RowContext) -> str | SafeString:
    return format_ago(row.last_active_at, context.now) if row.last_active_at else "Never"


def _first_seen(row: Any, context: RowContext) -> SafeString:
    return format_ago(context.subject(row).first_seen_at, context.now)


# A line does not begin with it.
_SEPARATOR = "\N{NO-BREAK SPACE}· "


def _license(row: Any, context: RowContext) -> str | SafeString:
    """The license in two lines: type and tier, and status and renewal."""
    traits = context.subject(row)
    kind = traits.trait_text(LICENSE_TYPE_TRAIT) or ""
    tier = traits.trait_text(TIER_TRAIT) or ""
    status = traits.trait_text(LICENSE_STATUS_TRAIT) or ""
    renews = kind.lower() != EVALUATION and status.lower() in ("", "active")
    # An evaluation's tier may say no more than its type.
    tier = "" if tier.lower() == kind.lower() else tier
    end = _describe_end(traits.trait_text(MAINTENANCE_END_TRAIT), context, renews=renews)
    first, second = (
        cut(_SEPARATOR.join(filter(None, parts)))
        for parts in ((LICENSE_TYPES.get(kind, kind), tier), (status, end))
    )
    if not first or not second:
        return first or second or "–"
    return format_html("{} <small>{}</small>", first, second)


def _license_values(row: Any, context: RowContext) -> list[Any]:
    traits = context.subject(row)
    names = (LICENSE_TYPE_TRAIT, TIER_TRAIT, LICENSE_STATUS_TRAIT, MAINTENANCE_END_TRAIT)
    return [traits.trait_text(name) for name in names]


def _describe_end(text: str | None, context: RowContext, *, renews: bool) -> str | None:
    day = parse_trait_day(text)
    if day is None:
        return None
    is_over = day < context.now.date()
    return f"{'ended' if is_over else 'renews' if renews else 'ends'} {date_format(day, 'j M Y')}"


def _renewal(row: Any, context: RowContext) -> str:
    day = parse_trait_day(context.subject(row).trait_text(MAINTENANCE_END_TRAIT))
    return date_format(day, "j M Y") if day else "–"


def _mrr(row: Any, context: RowContext) -> str:
    traits = context.subject(row).traits
    cents = mrr_of(traits)
    if cents is not None:
        return format_cents(cents)
    return cut(_trait_text(traits.get(MRR_TRAIT)), MAX_TRAIT_LENGTH) or "–"


def _mrr_values(row: Any, context: RowContext) -> list[Any]:
    traits = context.subject(row).traits
    cents = mrr_of(traits)
    return [_trait_text(traits.get(MRR_TRAIT)) if cents is None else cents]


def _external_id(row: Any, context: RowContext) -> str:
    return str(context.subject(row).external_id)


def _trait_column(name: str) -> ListColumn:
    trait = name.removeprefix(TRAIT_PREFIX)

    def cell(row: Any, context: RowContext) -> str:
        return cut(_trait_text(context.subject(row).traits.get(trait)), MAX_TRAIT_LENGTH)

    def values(row: Any, context: RowContext) -> list[Any]:
        return [_trait_text(context.subject(row).traits.get(trait))]

    return ListColumn(name, trait, cell, [trait], values, sort=name, first_descends=False)


def _seconds(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _trait_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_ALL = [
    ListColumn(
        "name",
        "Name",
        _name,
        ["tracking_id", "name", "detail"],
        _name_values,
        sort="name",
        first_descends=False,
    ),
    ListColumn("score", "Score", _score, ["score"], _score_values, sort="score"),
    ListColumn(
        "change",
        "Change",
        _change,
        ["change"],
        _change_values,
        sort="change",
        first_descends=False,
    ),
    ListColumn("history", "Last 30 days", _history),
    ListColumn(
        "active_users",
        "Active users",
        _active_users,
        ["active users", "total users"],
        lambda row, context: [row.active_users, row.total_users],
        sort="active_users",
    ),
    ListColumn(
        "account",
        "Account",
        _account,
        ["account tracking_id", "account name"],
        _account_values,
        sort="account",
        first_descends=False,
    ),
    ListColumn(
        "last_active",
        "Last active",
        _last_active,
        ["last active"],
        lambda row, context: [_seconds(row.last_active_at) if row.last_active_at else ""],
        sort="last_active",
    ),
    ListColumn(
        "license",
        "License",
        _license,
        ["license type", "license tier", "license status", "renewal"],
        _license_values,
        sort="renewal",
        first_descends=False,
    ),
    ListColumn(
        "renewal",
        "Renewal",
        _renewal,
        ["renewal"],
        lambda row, context: [context.subject(row).trait_text(MAINTENANCE_END_TRAIT)],
        sort="renewal",
        first_descends=False,
    ),
    ListColumn("mrr", MRR_LABEL, _mrr, ["mrr"], _mrr_values, sort="mrr"),
    ListColumn(
        "first_seen",
        "First seen",
        _first_seen,
        ["first seen"],
        lambda row, context: [_seconds(context.subject(row).first_seen_at)],
        sort="first_seen",
    ),
    ListColumn("external_id", "Id", _external_id),
]
_COLUMNS = {column.name: column for column in _ALL}


def export_heads(columns: Sequence[ListColumn], scope: Scope) -> list[str]:
    heads = [head for column in columns for head in column.heads]
    detail = "email" if scope == "user" else "domain"
    return [detail if head == "detail" else head for head in heads]


def export_values(columns: Sequence[ListColumn], row: Any, context: RowContext) -> list[Any]:
    return [value for column in columns for value in column.values(row, context)]
