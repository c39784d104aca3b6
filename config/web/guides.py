"""The guides on the web: those documents of ``docs/`` that help people to use and run the service.

They are rendered once per process. The files are ours, and HTML in them is shown as text all the
same.
"""

import posixpath
import re
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from config.web import guide_search

# The name in the URL and of the file, and the title in the list.
GUIDES = {
    "Using the service": {
        "sending-data": "Sending data",
        "forge": "Apps for Jira and Confluence",
        "reading-data": "Reading data",
        "clients": "Scripts and assistants",
        "admin": "The admin",
        "segments": "Segments",
        "activation": "Activation",
        "trends": "Trends",
        "work": "Work on accounts",
        "licenses": "Licenses",
        "outcomes": "Outcomes",
        "notifications": "Notifications",
        "exports": "Scheduled exports",
        "destinations": "CRM",
        "bulk-data": "Importing and exporting",
        "forgetting": "Forgetting people",
        "demo": "The demo and its truth",
        "glossary": "Glossary",
    },
    "Running the service": {
        "operating": "Operating",
        "alerts": "Alerts",
        "sign-in": "Signing in",
        "security": "Security review",
        "settings": "Settings",
        "commands": "Commands",
        "scaling": "Scaling",
        "under-pressure": "Under pressure",
    },
}
NAMES = {name for guides in GUIDES.values() for name in guides}
FOLDER = settings.BASE_DIR / "docs"
# Schemes, and paths of this server.
_ABSOLUTE = re.compile(r"[a-z]+:|/", re.ASCII)


class Guide(NamedTuple):
    title: str
    html: SafeString


@cache
def render_guide(name: str) -> Guide:
    """The guide as HTML. Links lead to other guides; a link to any other file becomes its text."""
    # The preset without HTML: it is escaped.
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse((FOLDER / f"{name}.md").read_text())
    title = _take_title(tokens)
    anchors: set[str] = set()
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            children = tokens[place + 1].children or []
            text = "".join(child.content for child in children)
            token.attrSet("id", guide_search.unique_anchor(text, anchors))
        elif token.type == "inline" and token.children:
            token.children = _link_guides(token.children)
        elif token.type == "fence":
            # The page's script adds a button to copy it.
            token.attrSet("data-copy", "")
    html = markdown.renderer.render(tokens, markdown.options, {})
    html = html.replace("<table>", '<div class="eds-guide-table" tabindex="0"><table>')
    # A table without heads has cells in their place.
    html = html.replace("<th></th>", "<td></td>")
    html = html.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
    return Guide(title, mark_safe(html))


def _take_title(tokens: list[Token]) -> str:
    """Remove the first heading. Returns its text."""
    assert tokens[0].type == "heading_open" and tokens[0].tag == "h1"
    _, title, _ = tokens[:3]
    del tokens[:3]
    return title.content


def _link_guides(tokens: list[Token]) -> list[Token]:
    """The tokens, with links to other guides, and without links to what is no guide. Images are
    static files."""
    linked: list[Token] = []
    removed_chars = 0
    for token in tokens:
        if token.type == "link_open":
            href = _guide_href(str(token.attrGet("href") or ""))
            if href is None:
                removed_chars += 1
                continue
            token.attrSet("href", href)
        elif token.type == "link_close" and removed_chars:
            # Links are not nested.
            removed_chars -= 1
            continue
        elif token.type == "image":
            name = str(token.attrGet("src")).removeprefix("images/")
            token.attrSet("src", static(f"guides/{name}"))
            token.attrSet("loading", "lazy")
        linked.append(token)
    return linked


def _guide_href(href: str) -> str | None:
    """The URL for a link in a document, or None if nothing is served there."""
    if href.startswith("#") or _ABSOLUTE.match(href):
        return href
    path, _, anchor = href.partition("#")
    name, extension = posixpath.splitext(path)
    if extension != ".md" or name not in NAMES:
        return None
    url = reverse("guide", args=[name])
    return f"{url}#{anchor}" if anchor else url


@require_safe
def guides(request: HttpRequest) -> HttpResponse:
    """The sections that the query finds, or the first guide."""
    query = " ".join(request.GET.get("q", "").split())[: guide_search.MAX_QUERY_LENGTH]
    if not query:
        return redirect("guide", "sending-data")
    results = guide_search.search(query, all_sections())
    return _page(request, f"Guides: {query}", query=query, results=results)


@require_safe
def guide(request: HttpRequest, name: str) -> HttpResponse:
    """A guide. It is public, because it contains no data."""
    if name not in NAMES:
        raise Http404
    guide_page = render_guide(name)
    return _page(request, guide_page.title, name, guide=guide_page)


@cache
def all_sections() -> list[guide_search.Section]:
    titles = {name: title for guides in GUIDES.values() for name, title in guides.items()}
    return [
        section
        for name, title in titles.items()
        for section in guide_search.sections(
            title, reverse("guide", args=[name]), (FOLDER / f"{name}.md").read_text()
        )
    ]


def _page(request: HttpRequest, title: str, current: str = "", **context: Any) -> HttpResponse:
    """A page with the list of guides and their search."""
    groups = [
        {
            "title": heading,
            "items": [
                {
                    "title": text,
                    "url": reverse("guide", args=[each]),
                    "is_current": each == current,
                }
                for each, text in pages.items()
            ],
        }
        for heading, pages in GUIDES.items()
    ]
    frame = {
        "title": title,
        "groups": groups,
        "site_header": admin.site.site_header,
        "site_title": admin.site.site_title,
    }
    return render(request, "config/guide.html", frame | context)
