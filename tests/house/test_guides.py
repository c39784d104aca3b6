"""The guides: documents that the service itself serves, with links that lead somewhere."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from config.web import guide_search, guides


class Elements(HTMLParser):
    """All start tags of a page, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, Any]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def values(self, tag: str, name: str) -> list[str]:
        return [
            attributes[name]
            for each, attributes in self.found
            if each == tag and name in attributes
        ]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: guides.render_guide(name).html for name in guides.NAMES}


def test_each_guide_is_served_under_the_strict_policy(client: Client) -> None:
    assert client.get("/docs/guides/")["Location"] == "/docs/guides/sending-data"
    response = client.get("/docs/guides/sending-data")
    html = response.content.decode()
    assert response.status_code == 200 and html.count("<h1>") == 1
    assert "'unsafe-inline'" not in response["Content-Security-Policy"]
    assert "<style" not in html and " style=" not in html and " onclick=" not in html
    assert 'aria-current="page">Sending data</a>' in html
    for name in ("decisions", "promises", "../README", "nothing", "sending-data.md"):
        assert client.get(f"/docs/guides/{name}").status_code == 404
    assert client.post("/docs/guides/admin").status_code == 405


def test_links_lead_to_guides_and_to_headings_that_exist(pages: dict[str, str]) -> None:
    elements = {name: Elements(html) for name, html in pages.items()}
    anchors = {
        name: {attributes["id"] for _, attributes in each.found if "id" in attributes}
        for name, each in elements.items()
    }
    for name, each in elements.items():
        assert "<p></p>" not in pages[name]
        for href in each.values("a", "href"):
            if href.startswith(("https://", "http://")):
                continue
            path, _, anchor = href.partition("#")
            guide = path.removeprefix("/docs/guides/") if path else name
            assert guide in pages or path in ("/docs", "/admin/"), (name, href)
            assert not anchor or anchor in anchors[guide], (name, href)


def test_images_are_static_files_with_a_text(pages: dict[str, str], client: Client) -> None:
    images = [
        attributes
        for html in pages.values()
        for tag, attributes in Elements(html).found
        if tag == "img"
    ]
    assert len(images) > 3 and all(len(image["alt"]) > 30 for image in images)
    for url in {image["src"] for image in images}:
        response = client.get(url)
        assert response.status_code == 200 and b"".join(response)
        assert response["Content-Type"] in ("image/svg+xml", "image/png")


def test_code_can_be_copied_and_tables_scroll(pages: dict[str, str]) -> None:
    html = pages["sending-data"]
    assert html.count("data-copy") == html.count("<pre") > 5
    assert (
        html.count('<div class="eds-guide-table" tabindex="0"><table>') == html.count("<table>") > 1
    )


def test_html_in_a_document_is_text(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# T\n\n<script>alert(1)</script> [x](javascript:alert(1)) <b onclick=x>\n"
    (tmp_path / "hostile.md").write_text(text)
    monkeypatch.setattr(guides, "FOLDER", tmp_path)
    html = guides.render_guide.__wrapped__("hostile").html
    assert "<script" not in html and "<b " not in html and 'href="javascript' not in html


def test_pages_link_to_the_guides(client: Client) -> None:
    assert re.search(r'<a href="/docs/guides/">Guides</a>', client.get("/docs").content.decode())


def test_the_search_finds_sections_by_all_words_and_leads_to_their_headings(
    client: Client, pages: dict[str, str]
) -> None:
    def find(query: str) -> Any:
        return client.get("/docs/guides/", {"q": query}).context["results"]

    # The heading counts more than the text.
    first = find("teams SLACK")[0]
    assert (first.guide, first.heading) == ("Notifications", "Slack and Microsoft Teams")
    assert first.url == "/docs/guides/notifications#slack-and-microsoft-teams"
    results = find("summer time zone")
    assert results and all("<mark>summer</mark>" in each.excerpt for each in results)
    assert "digests" in {each.url.partition("#")[2] for each in results}
    page = client.get("/docs/guides/", {"q": "<b>nothing"}).content.decode()
    assert "No section of a guide has all of these words." in page and "<b>nothing" not in page
    assert client.get("/docs/guides/", {"q": "  "})["Location"] == "/docs/guides/sending-data"
    assert len(find("the " * 200)) == guide_search.MAX_RESULTS
    anchors = {
        name: {attributes["id"] for _, attributes in Elements(html).found if "id" in attributes}
        for name, html in pages.items()
    }
    for section in guides.all_sections():
        name, _, anchor = section.url.removeprefix("/docs/guides/").partition("#")
        assert not anchor or anchor in anchors[name], section.url
        assert not re.search(r"\]\(|\*\*|`|---", section.text), section.url
