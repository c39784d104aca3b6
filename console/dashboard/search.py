"""The search box of each page: accounts and users of the products that one may see."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from access.pages.place import Place, find_place
from access.pages.scoping import visible_products
from access.pages.subject_urls import subject_url
from core.database import sql
from engagement.metric_names import Scope
from engagement.models import Account, Product, User
from engagement.scopes import get_kind
from engagement.search import lookup

TERM_PARAM = "q"
# Set by the script that shows the matches while somebody types.
SUGGESTIONS_PARAM = "suggestions"
TITLES: dict[Scope, str] = {"account": "Accounts", "user": "Users"}
# Matches of each kind.
MAX_SUGGESTIONS, MAX_MATCHES = 6, 50


@dataclass(frozen=True)
class Hit:
    """A match. ``detail`` is the email address or domain, or the id if there is none."""

    name: str
    detail: str
    product: str
    url: str


@dataclass(frozen=True)
class Hits:
    """The matches of one kind. ``has_more`` says that there are more than these."""

    title: str
    hits: Sequence[Hit]
    has_more: bool


def search_view(request: HttpRequest, site_context: dict[str, Any]) -> HttpResponse:
    """The page of matches, or only their list while somebody types."""
    term = request.GET.get(TERM_PARAM, "").strip()
    is_suggestion = SUGGESTIONS_PARAM in request.GET
    limit = MAX_SUGGESTIONS if is_suggestion else MAX_MATCHES
    here = find_place(request)
    products = _products_to_search(request, here)
    context: dict[str, Any] = {"term": term, "groups": [], "too_slow": False}
    try:
        for scope, title in TITLES.items():
            context["groups"].append(_find(products, here, scope, title, term, limit))
    except sql.StatementTimeout:
        context["too_slow"] = True
    context["is_empty"] = not any(group.hits for group in context["groups"])
    if is_suggestion:
        return TemplateResponse(request, "config/search_hits.html", context)
    title = f"Search: {term}" if term else "Search"
    context |= site_context | {"title": title, "search_term": term}
    return TemplateResponse(request, "config/search.html", context)


def _products_to_search(request: HttpRequest, here: Place) -> list[Product]:
    """The products that the person may see, the one of the page first."""
    products = list(visible_products(request.user).order_by("name"))
    return sorted(products, key=lambda product: product.pk != here.product_id)


def _find(
    products: Iterable[Product], here: Place, scope: Scope, title: str, term: str, limit: int
) -> Hits:
    names = {product.pk: product.name for product in products}
    matches: list[lookup.Match] = []
    for product_id in names:
        matches += lookup.find(product_id, scope, term)
        if len(matches) > limit:
            break
    rows = matches[:limit]
    subjects = _subjects(scope, rows)
    hits = [
        _hit(subjects[match.subject_id], here, scope, names[match.product_id])
        for match in rows
        if match.subject_id in subjects
    ]
    return Hits(title, hits, len(matches) > limit)


def _subjects(scope: Scope, matches: Sequence[lookup.Match]) -> dict[int, Any]:
    """The matches by their ids, product by product: the rows of one are on one node."""
    model: Any = get_kind(scope).model
    subjects = model.objects.filter(is_identified=True).defer("trait_stamps")
    by_id: dict[int, Any] = {}
    for product_id, matches_of_product in groupby(matches, attrgetter("product_id")):
        ids = [match.subject_id for match in matches_of_product]
        by_id |= subjects.filter(product=product_id).in_bulk(ids)
    return by_id


def _hit(subject: Account | User, here: Place, scope: Scope, product: str) -> Hit:
    detail = subject.domain if isinstance(subject, Account) else subject.email
    name = subject.name or subject.external_id
    # The scores stay those of the page's workspace.
    workspace_id = here.workspace_id if subject.product_id == here.product_id else None
    url = subject_url(subject, scope, workspace_id)
    return Hit(name, detail or subject.external_id, product, url)
