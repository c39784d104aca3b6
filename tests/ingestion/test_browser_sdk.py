"""Segment's snippet loads the SDK from the service, and the SDK then knows nobody else's host."""

import gzip
import hashlib
import re

from django.test import Client

from ingestion import browser_sdk
from tests.cases import each

SDK = "/analytics.js/v1/{}/analytics.min.js"
CHUNK = "/analytics-next/bundles/{}"


@each("path", [SDK, "/segment" + SDK, SDK.replace("/analytics.min", "/platform/analytics.min")])
def test_the_snippet_loads_the_sdk(path: str, client: Client) -> None:
    # This test has no access to the database.
    contents = set()
    for key in ("edk_one", "unknown"):
        response = client.get(path.format(key))
        assert response.status_code == 200
        assert response["Content-Type"] == "text/javascript; charset=utf-8"
        assert response["Cache-Control"] == "max-age=3600"
        assert response["Access-Control-Allow-Origin"] == "*"
        contents.add(response.content)
    (content,) = contents
    sdk = (browser_sdk.FOLDER / "standalone.js").read_bytes()
    assert content.endswith(sdk)
    assert content.startswith(b"/*! @segment/analytics-next\n\nThe MIT License (MIT)")
    compressed = client.get(path.format("edk_one"), HTTP_ACCEPT_ENCODING="gzip, br")
    assert compressed["Content-Encoding"] == "gzip"
    assert gzip.decompress(compressed.content) == content
    assert len(compressed.content) < 40_000
    assert client.post(path.format("edk_one")).status_code == 405


def test_the_sdk_loads_its_parts(client: Client) -> None:
    # What turns on the other parts is not in our settings.
    sdk = (browser_sdk.FOLDER / "standalone.js").read_text("utf-8")
    for part in ("auto-track", "queryString", "schemaFilter"):
        (number,) = re.findall(rf'(\d+):"{part}"', sdk)
        (version,) = re.findall(rf'\b{number}:"([0-9a-f]{{20}})"', sdk)
        response = client.get(CHUNK.format(f"{part}.bundle.{version}.js"))
        assert response.status_code == 200
        assert "immutable" in response["Cache-Control"]
    for name in ("other.js", "standalone.js", "LICENSE.md", "..%2f..%2fviews.js", ".."):
        assert client.get(CHUNK.format(name)).status_code == 404


def test_the_files_are_those_that_were_published() -> None:
    sums = (browser_sdk.FOLDER / "SHA256SUMS").read_text().splitlines()
    listed = {line.split()[1]: line.split()[0] for line in sums}
    files = {path.name: path.read_bytes() for path in browser_sdk.FOLDER.glob("*.js")}
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
