"""Whether licenses of an account moved to another site: the question, and who decides it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.http import Http404, HttpRequest
from django.utils import timezone
from django.utils.http import urlencode

from access.trail import entries
from engagement.models import Account
from marketplace.ledger import moves
from marketplace.ledger.moves import PerhapsMove

# What a person can say, and what that means; None opens the question again.
_ANSWERS = {"moved": True, "other": False, "open": None}
_SENTENCES = {
    None: "{0} perhaps moved to {1}, on another site: the same company name and country.",
    True: "{0} moved to {1}, as a person decided.",
    False: "{0} and {1} are of different customers, as a person decided.",
}


@dataclass(frozen=True)
class MoveQuestion:
    """A sentence, and what a person can answer: the buttons with their queries."""

    text: str
    answers: Sequence[tuple[str, str]]


def move_questions(account: Account, *, may_decide: bool) -> list[MoveQuestion]:
    return [
        MoveQuestion(
            _SENTENCES[move.is_move].format(move.leaver, move.arrival),
            list(_answers(move)) if may_decide else [],
        )
        for move in moves.moves_of(account.product_id, account.external_id)
    ]


def _answers(move: PerhapsMove) -> Sequence[tuple[str, str]]:
    labels = {"moved": "It moved", "other": "Different customers"}
    if move.is_move is not None:
        labels = {"open": "Undo"}
    query = {"leaver": move.leaver, "arrival": move.arrival}
    return [(label, urlencode({**query, "answer": answer})) for answer, label in labels.items()]


def decide_move(request: HttpRequest, account: Account) -> str:
    """Store the answer in the query; return what to say. Raises Http404 for other questions."""
    pair = request.GET.get("leaver"), request.GET.get("arrival")
    answer = request.GET.get("answer")
    for move in moves.moves_of(account.product_id, account.external_id):
        if (move.leaver, move.arrival) == pair and answer in _ANSWERS:
            decided = replace(move, is_move=_ANSWERS[answer])
            moves.decide(account.product_id, decided, timezone.now())
            text = _SENTENCES[decided.is_move].format(*pair)
            entries.record(
                entries.actor_of(request),
                entries.Action.CHANGED,
                "license",
                product_id=account.product_id,
                object_id=move.leaver,
                name=move.leaver,
                note=text,
            )
            return f"{text} The license events follow within a minute."
    raise Http404
