"""The guides on the web: those documents of ``docs/`` that help people to use and run the service.

They are rendered once per process. The files are ours, and HTML in them is shown as text all the
same.
"""

import posixpath
import re
from functools import cache
from typing import NamedTuple

from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

# The name in the URL and of the file, and the title in the list.
GUIDES = {
    "Using the service": {
        "sending-data": "Sending data",
        "forge": "Apps for Jira and Confluence",
        "reading-data": "Reading data",
        "clients": "Scripts and assistants",
        "admin": "The admin",
        "segments": "Segments",
        "trends": "Trends",
        "work": "Work on accounts",
        "licenses": "Licenses",
        "outcomes": "Outcomes",
        "notifications": "Notifications",
        "exports": "Scheduled exports",
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
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")


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
            token.attrSet("id", _anchor(tokens[place + 1], anchors))
        elif token.type == "inline" and token.children:
            token.children = _link_guides(token.children)
        elif token.type == "fence":
            # The page's script adds a button to copy it.
            token.attrSet("data-copy", "")
    tokens = _without_empty_paragraphs(tokens)
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


def _anchor(heading: Token, anchors: set[str]) -> str:
    """The heading's anchor, as GitHub makes it."""
    text = "".join(child.content for child in heading.children or [])
    anchor = _NOT_IN_ANCHOR.sub("", text.lower()).replace(" ", "-")
    unique, number = anchor, 0
    while unique in anchors:
        number += 1
        unique = f"{anchor}-{number}"
    anchors.add(unique)
    return unique


def _link_guides(tokens: list[Token]) -> list[Token]:
    """The tokens, with links to other guides, and without links to what is no guide."""
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
            continue
        linked.append(token)
    return linked


def _without_empty_paragraphs(tokens: list[Token]) -> list[Token]:
    """The tokens without the paragraphs that had nothing but an image."""
    empty = {
        place
        for place, token in enumerate(tokens)
        if token.type == "inline" and token.content and not token.children
    }
    return [
        token
        for place, token in enumerate(tokens)
        if empty.isdisjoint({place - 1, place, place + 1})
    ]


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
    """The first guide."""
    return redirect("guide", "sending-data")


@require_safe
def guide(request: HttpRequest, name: str) -> HttpResponse:
    """A guide. It is public, because it contains no data."""
    if name not in NAMES:
        raise Http404
    guide_page = render_guide(name)
    groups = [
        {
            "title": title,
            "items": [
                {
                    "title": text,
                    "url": reverse("guide", args=[each]),
                    "is_current": each == name,
                }
                for each, text in pages.items()
            ],
        }
        for title, pages in GUIDES.items()
    ]
    context = {
        "title": guide_page.title,
        "guide": guide_page,
        "groups": groups,
        "site_header": admin.site.site_header,
        "site_title": admin.site.site_title,
    }
    return render(request, "config/guide.html", context)
