"""The page *Evaluations under way* of a workspace: how likely each is to be bought, what that is
made of, and how good such chances were. Without licenses, it says which accounts may go quiet."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, NamedTuple

from django.db.models import F, QuerySet
from django.http import Http404, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.text import slugify

from access.pages.csv_file import csv_response
from access.pages.pages import ExtraView, PageAdmin
from access.pages.subject_urls import subject_url
from access.trail import entries
from console.workspaces.backtest_page import reliability_end
from core.ids import parse_id
from engagement.models import Account, AccountChance, Workspace
from outcomes.backtests.texts import KIND_TEXTS
from outcomes.chances import storage, texts
from outcomes.chances.cases import AGES, kinds_of
from outcomes.chances.results import Evidence, Totals
from outcomes.chances.texts import ASKED_FOR_BAD, CHANCE_TEXTS
from outcomes.kinds import Kind
from outcomes.models import ChanceModel
from outcomes.statistics.estimates import Estimate

# The page of forecasts has those that renew.
KINDS = (Kind.EVALUATION, Kind.DORMANCY, Kind.TRAIT)
# The file has what is on no page.
PAGE_SIZE, MOST_PAGES = 25, 200
FILE_HEAD = (
    *("Account", "License", "Began on", "Day", "Chance", "Low", "High", "Outcomes"),
    *("Too few to tell", "Seats", "Version of the model", "Facts"),
)


class ChancePages(PageAdmin):
    """The part of a workspace's admin that serves chances."""

    chance_views: ClassVar[Sequence[ExtraView]] = (
        ExtraView("chances", permission="view", methods=("GET", "HEAD")),
    )

    def chances_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """The chances of ``kind``, a ``page`` of them, and the proof of the model of ``age``; with
        ``file``, all chances as CSV."""
        own_kinds = kinds_of(workspace)
        kinds = [kind for kind in KINDS if kind in own_kinds]
        choice = _Choice.of(self.view_url("chances", workspace), request, kinds)
        progress = storage.progress(workspace)
        if "progress" in request.GET:
            text = progress or "Computed. Reload the page to see the new chances."
            return JsonResponse({"text": text, "is_over": not progress})
        totals = storage.totals(workspace).get(choice.kind) if choice else None
        if "file" in request.GET:
            if choice is None or totals is None:
                raise Http404
            return _file_response(request, workspace, choice.kind, totals)
        context: dict[str, Any] = {"choice": choice, "progress": progress}
        if choice:
            context["progress_url"] = choice.url(progress="1")
            context["kinds"] = [
                (
                    CHANCE_TEXTS[kind].title,
                    choice.url(kind=kind, page="", age=""),
                    kind is choice.kind,
                )
                for kind in kinds
            ]
        if choice and totals:
            context |= _context(workspace, choice, totals, timezone.now().date())
        template = "admin/engagement/chances.html"
        title = CHANCE_TEXTS[choice.kind if choice else Kind.EVALUATION].title
        return self.render_page(request, template, title, subtitle=None, **context)


@dataclass(frozen=True)
class _Choice:
    """What the address of the page asks for."""

    path: str
    kind: Kind
    page: int
    age: int | None

    @classmethod
    def of(cls, path: str, request: HttpRequest, kinds: Sequence[Kind]) -> "_Choice | None":
        """None without a kind to choose. Raises Http404 for what no link of the page asks for."""
        query = request.GET
        if not kinds and "kind" not in query:
            return None
        kind = query.get("kind") or kinds[0]
        page, age = parse_id(query.get("page", "1")), parse_id(query.get("age", ""))
        is_known = kind in kinds and (age is None or age in AGES[Kind(kind)])
        if not is_known or not page or page > MOST_PAGES:
            raise Http404
        return cls(path, Kind(kind), page, age)

    def url(self, **changes: object) -> str:
        """The page's address with these changes."""
        own = {"kind": self.kind, "page": self.page if self.page > 1 else "", "age": self.age}
        query = {name: str(value) for name, value in (own | changes).items() if value}
        return f"{self.path}?{urlencode(query)}"


def _context(workspace: Workspace, choice: _Choice, totals: Totals, today: date) -> dict[str, Any]:
    kind, models = choice.kind, storage.models(workspace, choice.kind)
    start = (choice.page - 1) * PAGE_SIZE
    listed = list(_listed(workspace, kind, totals)[start : start + PAGE_SIZE + 1])
    has_next = len(listed) > PAGE_SIZE and choice.page < MOST_PAGES
    return {
        "summary": texts.summary(kind, totals, models.values()),
        "left_out": list(texts.left_out(totals)),
        "rows": _rows(workspace, kind, listed[:PAGE_SIZE], models.values(), today),
        "chance_label": "Chance" if kind is Kind.EVALUATION else "Risk",
        "has_seats": kind is Kind.EVALUATION,
        "previous_url": choice.url(page=choice.page - 1) if choice.page > 1 else "",
        "next_url": choice.url(page=choice.page + 1) if has_next else "",
        "file_url": choice.url(file="csv", page="", age=""),
        "looked_at": storage.looked_at(workspace),
        "good": KIND_TEXTS[kind].good,
        **_proof_context(choice, models),
    }


# --- The list -------------------------------------------------------------------------------


def _listed(workspace: Workspace, kind: Kind, totals: Totals) -> QuerySet[Any]:
    """Evaluations by the seats that are to be expected, and accounts by the risk, the highest
    first. If all accounts have the same risk, none is listed: their order would mean nothing."""
    rows = storage.running(workspace, kind)
    if kind not in ASKED_FOR_BAD:
        return storage.by_seats(rows).order_by("-worth", "-chance", "account_id", "license")
    return rows.order_by("chance", "account_id") if totals.learned else rows.none()


class _Row(NamedTuple):
    """A chance in words. ``bar`` has the chance and the ends of its interval."""

    name: str
    url: str
    day: str
    seats: int | None
    chance: Estimate
    is_share: bool
    basis: str
    facts: Sequence[tuple[str, str]]
    similar: Sequence[tuple[str, str, str]]


def _rows(
    workspace: Workspace,
    kind: Kind,
    rows: Sequence[AccountChance],
    models: Iterable[ChanceModel],
    today: date,
) -> Iterator[_Row]:
    evidence = [storage.evidence_of(row) for row in rows]
    ids = {row.account_id for row in rows}
    ids |= {case.account for each in evidence for case in each.similar}
    accounts = Account.objects.filter(
        product=workspace.product_id, id__in=ids, is_identified=True
    ).defer("trait_stamps")
    by_id = {account.pk: account for account in accounts}
    ages = {model.pk: model.age for model in models}
    for row, why in zip(rows, evidence, strict=True):
        account = by_id.get(row.account_id)
        if account is None:
            continue
        yield _Row(
            account.name or account.external_id,
            subject_url(account, "account", workspace.pk),
            texts.day_text(row.began_on, row.day, today) if kind is Kind.EVALUATION else "",
            row.seats,
            _shown_chance(kind, row),
            row.is_share,
            _basis(kind, row, ages),
            texts.fact_texts(why, is_risk=kind in ASKED_FOR_BAD),
            list(_similar(workspace, kind, why, by_id)),
        )


def _shown_chance(kind: Kind, row: AccountChance) -> Estimate:
    if kind in ASKED_FOR_BAD:
        return Estimate(1 - row.chance, 1 - row.high, 1 - row.low, row.outcomes)
    return Estimate(row.chance, row.low, row.high, row.outcomes)


def _basis(kind: Kind, row: AccountChance, ages: Mapping[int, int]) -> str:
    number = f"from {row.outcomes:,} past ones"
    age = ages.get(row.version or 0)
    return f"as of day {age}, {number}" if kind is Kind.EVALUATION and age else number


def _similar(
    workspace: Workspace, kind: Kind, why: Evidence, accounts: Mapping[int, Account]
) -> Iterator[tuple[str, str, str]]:
    """The name and the URL of each similar past case, and what became of it. An account that was
    forgotten since has no name."""
    words = KIND_TEXTS[kind]
    for case in why.similar:
        became = f"{words.good if case.is_good else words.bad}, {case.day:%-d %b %Y}"
        if account := accounts.get(case.account):
            url = subject_url(account, "account", workspace.pk)
            yield account.name or account.external_id, url, became


# --- The proof ------------------------------------------------------------------------------


def _proof_context(choice: _Choice, models: Mapping[int, ChanceModel]) -> dict[str, Any]:
    proofs = {age: storage.proof_of(model) for age, model in models.items()}
    judged = {age: proof.outcomes for age, proof in proofs.items() if proof}
    own_age = (
        choice.age if choice.age in models else max(judged, key=judged.__getitem__, default=None)
    )
    proof = proofs.get(own_age) if own_age else None
    return {
        "models": [
            (
                _age_label(choice.kind, age),
                choice.url(age=age) + "#proof",
                age == own_age,
                model,
                proof,
                texts.gain_text(proof.gain) if proof else "",
            )
            for (age, model), proof in zip(models.items(), proofs.values(), strict=True)
        ],
        "proof": proof,
        "reliability_end": reliability_end(proof.bins if proof else ()),
        "proof_label": _age_label(choice.kind, own_age) if own_age else "",
        "caption": "Across: the chance that was told, from what was known before. Up: the share "
        f"that {KIND_TEXTS[choice.kind].good}, with its 95% interval. On the line, both are the "
        "same.",
        "proof_text": texts.proof_sentence(proof),
    }


def _age_label(kind: Kind, age: int) -> str:
    return f"Day {age}" if kind is Kind.EVALUATION else f"{age} days before"


# --- The file -------------------------------------------------------------------------------


def _file_response(
    request: HttpRequest, workspace: Workspace, kind: Kind, totals: Totals
) -> HttpResponseBase:
    entries.record(
        entries.actor_of(request),
        entries.Action.EXPORTED,
        "export",
        product_id=workspace.product_id,
        name=str(workspace),
        note=f"{CHANCE_TEXTS[kind].title} as CSV.",
    )
    name = f"{slugify(workspace.name)}-{kind}-chances"
    return csv_response(name, FILE_HEAD, _file_lines(_listed(workspace, kind, totals)))


def _file_lines(rows: QuerySet[Any]) -> Iterator[Sequence[Any]]:
    """All chances of good outcomes, in the order of the page."""
    for row in rows.annotate(external_id=F("account__external_id")).iterator(2_000):
        numbers = (round(number, 4) for number in (row.chance, row.low, row.high))
        facts = "; ".join(
            f"{text} ({effect})" for text, effect in texts.fact_texts(storage.evidence_of(row))
        )
        yield (
            *(row.external_id, row.license, row.began_on, row.day, *numbers),
            *(row.outcomes, "yes" if row.is_share else "no", row.seats, row.version, facts),
        )
