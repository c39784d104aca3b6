"""Entries of the trail in words: a sentence for people, and the changes as lines."""

import json
import re
from collections.abc import Iterator
from typing import Any

from access.models import TrailEntry
from engagement.rules.texts import describe_stored_rule
from engagement.scores.insight_texts import join_texts

Action = TrailEntry.Action

# Of the text of a value on a page.
MAX_VALUE_LENGTH = 200
# Of a sentence. The page of the entry has all.
MAX_CLAUSES = 3
_VERBS = {
    Action.ADDED: "added",
    Action.CHANGED: "changed",
    Action.DELETED: "deleted",
    Action.SECRET_READ: "read the secret of",
    Action.EXPORTED: "exported",
    Action.FORGOTTEN: "forgot",
    Action.SIGNED_IN: "signed in",
    Action.SIGNED_OUT: "signed out",
    Action.SIGN_IN_FAILED: "failed to sign in",
}
_MEMBER = "member "
_LOGINS = ("login", "member")
# A note that says what its person did, and those of forms, which name the fields that changed.
_DEED = re.compile(r"[A-Z][a-z]+(?:ed|ame|ade|ent|ose|ot|ote|ook)\b")
_FORM = re.compile(r"(?:Changed|Added|Deleted|No fields changed)\b")


def describe(entry: TrailEntry) -> str:
    """“Ada changed the weight of Report_Shared from 1 to 5 in the workspace Acme · Default.”"""
    who = entry.person or "Somebody"
    about = " ".join(filter(None, ("the", entry.kind, entry.object_name)))
    is_self = entry.kind in _LOGINS and entry.object_id == str(entry.login_id)
    match Action(entry.action):
        case Action.SIGNED_IN | Action.SIGNED_OUT | Action.SIGN_IN_FAILED:
            return _with_note(f"{who} {_VERBS[Action(entry.action)]}", entry)
        case Action.EXPORTED if entry.note:
            place = f", of {entry.object_name}" if entry.object_name else ""
            return f"{who} exported {_lower(entry.note)}{place}."
        case Action.CHANGED if entry.changes:
            place = "" if is_self else f" in {about}"
            return _with_note(f"{who} {join_texts(list(_clauses(entry)))}{place}", entry)
        case Action.CHANGED if entry.note.startswith("No fields changed"):
            return f"{who} saved {about}. Nothing was different."
        case _ if entry.note and _DEED.match(entry.note):
            place = "" if is_self or not entry.object_name else f" ({about.removeprefix('the ')})"
            return f"{who} {_lower(entry.note)}{place}."
        case action:
            return _with_note(f"{who} {_VERBS[action]} {about}", entry)


def describe_changes(entry: TrailEntry) -> list[str]:
    """The changes as lines of text."""
    return [
        f"{name.replace('_', ' ')}: {display(before)} → {display(after)}"
        if before not in (None, "")
        else f"{name.replace('_', ' ')}: {display(after)}"
        for name, (before, after) in entry.changes.items()
    ]


def label(name: str) -> str:
    """The name of a field in words: “weight of Report_Shared”, “owner”."""
    return name if " of " in name else name.replace("__name", "").replace("_", " ")


def display(value: Any) -> str:
    """The value of a field in words; “–” for none."""
    text = _as_text(value)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def _with_note(sentence: str, entry: TrailEntry) -> str:
    is_known = not entry.note or (entry.changes and _FORM.match(entry.note))
    return f"{sentence}." if is_known else f"{sentence}. {entry.note}"


def _lower(note: str) -> str:
    return f"{note[:1].lower()}{note[1:]}".rstrip(".")


def _clauses(entry: TrailEntry) -> Iterator[str]:
    changes = list(entry.changes.items())
    for name, (before, after) in changes[:MAX_CLAUSES]:
        yield _clause(name, before, after)
    if len(changes) > MAX_CLAUSES:
        yield f"changed {len(changes) - MAX_CLAUSES} more"


def _clause(name: str, before: Any, after: Any) -> str:
    old, new = display(before), display(after)
    if name.startswith(_MEMBER):
        return _member_clause(name.removeprefix(_MEMBER), old, new)
    if isinstance(after, bool):
        return f"turned “{label(name).removeprefix('is ')}” {'on' if after else 'off'}"
    if old == "–":
        return f"set the {label(name)} to {new}"
    if new == "–":
        return f"removed the {label(name)}, which was {old}"
    return f"changed the {label(name)} from {old} to {new}"


def _member_clause(login: str, old: str, new: str) -> str:
    if old == "–":
        return f"added {login} as a {new.lower()}"
    if new == "–":
        return f"removed {login}, a {old.lower()}"
    return f"changed {login} from a {old.lower()} to a {new.lower()}"


def _as_text(value: Any) -> str:
    if value in (None, "", [], {}):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    # An audience, or the conditions of a segment, whose "match" is a value of its own.
    rule = {"conditions": value} if isinstance(value, list) else value
    if isinstance(rule, dict) and (text := describe_stored_rule(rule)):
        return text
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
