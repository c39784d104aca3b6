"""Which licenses continue others: a purchase its trial, a new license an old one, or one on another
site.

A relation follows from the licenses that share a link, so each of them finds the same one.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from marketplace.ledger.inputs import Kind, LedgerSettings, days
from marketplace.ledger.stages import Life, Stage

SITE, ID, PURCHASER, HOST, PARENT = "site:", "id:", "purchaser:", "host:", "parent:"
# Of the same company and country, if the marketplace names no purchaser.
NAMESAKE = "namesake:"
# What licenses that moved to another site share, the surest first.
_MOVE_LINKS: Final = (PURCHASER, HOST, PARENT)
# A purchaser with more licenses is a partner, whose licenses belong to many customers.
MAX_LINKED = 50


@dataclass(frozen=True)
class Relations:
    """The licenses that continue others. Trials are named by license and anchor."""

    purchases: dict[tuple[str, str], Life] = field(default_factory=dict)
    bought: dict[str, Life] = field(default_factory=dict)
    successors: dict[str, Life] = field(default_factory=dict)
    predecessors: dict[str, Life] = field(default_factory=dict)
    moved_to: dict[str, Life] = field(default_factory=dict)
    moved_from: dict[str, Life] = field(default_factory=dict)
    perhaps_to: dict[str, Life] = field(default_factory=dict)
    perhaps_from: dict[str, Life] = field(default_factory=dict)


def relate(lives: Iterable[Life], settings: LedgerSettings) -> Relations:
    relations = Relations()
    by_link: dict[str, list[Life]] = defaultdict(list)
    for life in sorted(lives, key=lambda life: life.license):
        for link in life.inputs.links:
            by_link[link].append(life)
    groups = {link: group for link, group in sorted(by_link.items()) if _is_usable(group)}
    for prefix in (ID, SITE):
        for group in _with_prefix(groups, prefix):
            _relate_purchases(group, prefix == ID, relations, settings)
    for group in _with_prefix(groups, SITE):
        _relate_successors(group, relations, settings)
    for prefix in _MOVE_LINKS:
        for group in _with_prefix(groups, prefix):
            _relate_moves(group, relations, settings)
    for group in _with_prefix(groups, NAMESAKE):
        _relate_namesakes(group, relations, settings)
    return relations


def _is_usable(group: list[Life]) -> bool:
    return 1 < len(group) <= MAX_LINKED


def _with_prefix(groups: Mapping[str, list[Life]], prefix: str) -> Iterator[list[Life]]:
    return (group for link, group in groups.items() if link.startswith(prefix))


def _unexplained(group: list[Life], relations: Relations) -> list[Life]:
    """The licenses that began as paid ones and continue none yet, in the order of their starts."""
    return sorted(
        (
            life
            for life in group
            if life.first.kind is Kind.PAID
            and life.license not in relations.bought
            and life.license not in relations.predecessors
            and life.license not in relations.moved_from
        ),
        key=lambda life: (life.first.start, life.license),
    )


# --- Trials ---------------------------------------------------------------------------------


def _relate_purchases(
    group: list[Life], is_named: bool, relations: Relations, settings: LedgerSettings
) -> None:
    """A trial may be bought as a license of its own: it names the trial, or begins on the same site
    at most 45 days after its end. Source: C3, evaluation_bought."""
    for life in _unexplained(group, relations):
        trials = [
            (trial.start, other.license, trial.anchor, other)
            for other in group
            if other is not life and (not is_named or _names_trial(life, other))
            for trial in open_trials(other)
            if (other.license, trial.anchor) not in relations.purchases
            and _follows(life.first.start, trial, is_named, settings)
        ]
        if trials:
            *_, anchor, other = max(trials, key=lambda row: row[:3])
            relations.purchases[other.license, anchor] = life
            relations.bought[life.license] = other


def _names_trial(life: Life, other: Life) -> bool:
    return life.inputs.fact("evaluationLicense") in other.inputs.names


def _follows(start: date, trial: Stage, is_named: bool, settings: LedgerSettings) -> bool:
    latest = (trial.end or trial.start) + days(settings.evaluation_grace)
    return trial.start <= start and (is_named or start <= latest)


def open_trials(life: Life) -> list[Stage]:
    """The trials that were not bought on their own license."""
    following = [*life.stages[1:], None]
    return [
        stage
        for stage, after in zip(life.stages, following, strict=True)
        if stage.kind is Kind.EVALUATION and (after is None or after.kind is not Kind.PAID)
    ]


# --- The same site --------------------------------------------------------------------------


def _relate_successors(group: list[Life], relations: Relations, settings: LedgerSettings) -> None:
    """A new license on a site may continue the one that ended there. Source: D, bought again."""
    for life in _unexplained(group, relations):
        start = life.first.start
        ended = [
            (end, other.license, other)
            for other in group
            if other is not life
            and other.license not in relations.successors
            and other.last.kind is Kind.PAID
            and (end := other.last.left_on) is not None
            and end <= start + days(settings.extension)
        ]
        if ended:
            *_, other = max(ended, key=lambda row: row[:2])
            relations.successors[other.license] = life
            relations.predecessors[life.license] = other


# --- Other sites ----------------------------------------------------------------------------


def _relate_moves(group: list[Life], relations: Relations, settings: LedgerSettings) -> None:
    """A license that leaves and one that begins on another site near that day, one to one.
    Source: C3, moved_site."""
    for leaver, arrival in _move_pairs(group, relations, settings):
        if leaver.license not in relations.moved_to and arrival.license not in relations.moved_from:
            relations.moved_to[leaver.license] = arrival
            relations.moved_from[arrival.license] = leaver


def _relate_namesakes(group: list[Life], relations: Relations, settings: LedgerSettings) -> None:
    """Two customers may have the same name, so a person decides. Source: D, the last question."""
    pairs = list(_move_pairs(group, relations, settings))
    for leaver, arrival in pairs:
        if leaver.inputs.decided_moves.get(arrival.license):
            relations.moved_to[leaver.license] = arrival
            relations.moved_from[arrival.license] = leaver
    for leaver, arrival in pairs:
        is_open = arrival.license not in leaver.inputs.decided_moves
        explained = {*relations.moved_to, *relations.perhaps_to}
        explained |= {*relations.moved_from, *relations.perhaps_from}
        if is_open and explained.isdisjoint((leaver.license, arrival.license)):
            relations.perhaps_to[leaver.license] = arrival
            relations.perhaps_from[arrival.license] = leaver


def _move_pairs(
    group: list[Life], relations: Relations, settings: LedgerSettings
) -> Iterator[tuple[Life, Life]]:
    """Licenses that leave and those that may continue them elsewhere, the nearest days first."""
    arrivals = _unexplained(group, relations)
    pairs = sorted(
        (abs((arrival.first.start - day).days), leaver.license, arrival.license, leaver, arrival)
        for leaver in group
        if leaver.license not in relations.successors and leaver.license not in relations.moved_to
        if (day := departure(leaver)) is not None
        for arrival in arrivals
        if leaver is not arrival and _is_elsewhere(leaver, arrival)
        if abs((arrival.first.start - day).days) <= settings.move_window
    )
    return ((leaver, arrival) for *_, leaver, arrival in pairs)


def _is_elsewhere(leaver: Life, arrival: Life) -> bool:
    sites = leaver.rows[-1].cloud_id, arrival.rows[0].cloud_id
    return all(sites) and sites[0] != sites[1]


def departure(life: Life) -> date | None:
    """The day on which a paid license left its site, by its state or by the reports."""
    if all(stage.kind is not Kind.PAID for stage in life.stages):
        return None
    if life.last.kind is Kind.FREE and life.last.first.is_legacy_free:
        return life.last.first.as_of
    if life.last.kind is Kind.PAID and life.last.last.status in ("inactive", "cancelled"):
        return life.last.last.as_of
    unlisted = [day for day, is_listed in life.inputs.listings if not is_listed]
    return unlisted[-1] if unlisted and not life.inputs.listings[-1][1] else None
