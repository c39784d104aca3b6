"""Who looks after an account, its tags, and its notes: what its page shows, and what people do."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.utils import timezone

from access.trail import entries
from access.work import accounts, alarms, owners
from access.work.alarms import OpenAlarm
from access.work.settings import results_of
from core.ids import parse_id
from engagement.models import Account, Workspace
from engagement.rules.rules import parse_day
from engagement.scores.insight_texts import format_day

# More are on a page of their own.
NOTES_SHOWN = 20


@dataclass(frozen=True)
class WorkCard:
    """*owner* is what people call the login. *choices* are for people who may work on it."""

    owner: str
    login: str
    is_by_hand: bool
    tags: list[str]
    alarms: list["AlarmLine"]
    results: list[str]
    notes: list[Any]
    more_notes: int
    may_work: bool
    choices: list[tuple[str, str]]
    known_tags: list[str]
    url: str
    me: str


@dataclass(frozen=True)
class AlarmLine:
    """An open alarm of the account. *state* is what people did about it."""

    signal: str
    label: str
    since: date
    state: str
    is_closed: bool
    is_resting: bool
    is_mine: bool


def _line(request: HttpRequest, each: OpenAlarm, names: Mapping[str, str]) -> AlarmLine:
    alarm, work, until = each.alarm, each.work, each.rests_until(timezone.now().date())
    state = f"Taken by {names.get(work.taken_by, work.taken_by)}." if work.taken_by else ""
    if until:
        state = f"{state} Snoozed until {format_day(until)}.".strip()
    if work.result:
        closer = names.get(work.closed_by, work.closed_by)
        state = f"Closed by {closer} as “{work.result}”."
    return AlarmLine(
        alarm.signal,
        alarms.label(alarm.signal, is_stopped=alarm.is_stopped),
        alarm.since,
        state,
        is_closed=bool(work.result),
        is_resting=until is not None,
        is_mine=work.taken_by == request.user.get_username(),
    )


def work_card(
    request: HttpRequest, account: Account, workspace: Workspace | None, url: str, *, may_work: bool
) -> WorkCard:
    work = accounts.work_of(account.product_id, [account.pk])[account.pk]
    names = owners.names(account.product_id)
    notes = list(accounts.notes_of(account.product_id, [account.pk])[: NOTES_SHOWN + 1])
    for note in notes:
        note.author_name = names.get(note.author, note.author)  # type: ignore[attr-defined]
    scores = workspace.scores if workspace else None
    open_alarms = alarms.open_alarms(scores, account.pk) if scores and scores.scored_day else []
    return WorkCard(
        alarms=[_line(request, each, names) for each in open_alarms],
        results=list(results_of(account.product)) if may_work else [],
        owner=names.get(work.owner, work.owner),
        login=work.owner,
        is_by_hand=work.is_by_hand,
        tags=sorted(work.tags, key=str.casefold),
        notes=notes[:NOTES_SHOWN],
        more_notes=len(notes) - NOTES_SHOWN,
        may_work=may_work,
        choices=list(names.items()) if may_work else [],
        known_tags=accounts.known_tags(account.product_id) if may_work else [],
        url=url,
        me=request.user.get_username(),
    )


def do_work(request: HttpRequest, account: Account, workspace: Workspace | None) -> None:
    """Do what one of the card's forms posts, and tell the person what is wrong with it."""
    try:
        if "signal" in request.POST:
            _do_about_alarm(request, account, workspace)
        else:
            _do(request, account)
    except accounts.CannotWork as problem:
        messages.warning(request, str(problem))


def _do(request: HttpRequest, account: Account) -> None:
    posted, actor = request.POST, entries.actor_of(request)
    if "owner" in posted:
        accounts.choose_owner(account.product_id, [account.pk], posted["owner"], actor)
    elif "tag" in posted:
        accounts.add_tag(account.product_id, [account.pk], posted["tag"], actor)
    elif "remove_tag" in posted:
        accounts.remove_tag(account.product_id, [account.pk], posted["remove_tag"], actor)
    elif "note" in posted:
        accounts.write_note(account, posted["note"], actor, timezone.now())
    elif "delete_note" in posted:
        accounts.delete_note(account, parse_id(posted["delete_note"]) or 0, actor)


def _do_about_alarm(request: HttpRequest, account: Account, workspace: Workspace | None) -> None:
    if workspace is None or workspace.scores is None:
        raise accounts.CannotWork("This workspace has no scores.")
    posted, now = request.POST, timezone.now()
    of_alarm = (workspace.scores, account, posted["signal"])
    actor = entries.actor_of(request)
    match posted.get("do"):
        case "take":
            alarms.take(*of_alarm, actor, now)
        case "snooze":
            until = parse_day(posted.get("until", "")) or now.date()
            alarms.snooze(*of_alarm, until, actor, now)
        case "close":
            alarms.close(*of_alarm, posted.get("result", ""), actor, now)
        case "reopen":
            alarms.reopen(*of_alarm, actor, now)
