"""Sends recorded requests to a service, through a TLS proxy or as one would pass them on."""

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from tests.clients.recordings.story import Recording, Request, Story, basic
from tests.clients.service import Service


class Replayer:
    """A connection that stays open, as the connections of most SDKs do.

    With a *proxy*, its host and port, it is a connection to the proxy with TLS.
    """

    def __init__(
        self, service: Service, proxy: str = "", context: ssl.SSLContext | None = None
    ) -> None:
        self._key = service.key
        self._host = proxy or service.host
        self._connection = (
            http.client.HTTPSConnection(proxy, timeout=30, context=context)
            if proxy
            else http.client.HTTPConnection(service.host, timeout=30)
        )

    def close(self) -> None:
        self._connection.close()

    def replay(self, recording: Recording, user: str | int, account: str | int) -> str:
        """Send everything twice, as an SDK does that has lost the responses.

        Return why the service or the SDK refused something, or an empty text.
        """
        try:
            self._replay(recording, user, account)
        except (AssertionError, LookupError, ValueError) as error:
            return repr(error)
        return ""

    def _replay(self, recording: Recording, user: str | int, account: str | int) -> None:
        story = recording.story(self._key, user, account)
        if recording.settings_path:
            story.settings.update(self._settings(recording, story))
        requests = recording.requests(story)
        assert requests
        for request in 2 * requests:
            self.send(request)

    def _settings(self, recording: Recording, story: Story) -> dict[str, Any]:
        path = recording.settings_path.format(key=story.key)
        headers = {"Accept": "application/json", "Authorization": basic(story.key)}
        settings = json.loads(self.send(Request(path, headers, b"", "GET")))
        assert isinstance(settings, dict)
        return settings

    def send(self, request: Request) -> bytes:
        """Return the response's body. Apps know only HTTPS, which ends at the proxy."""
        url = urlsplit(request.url)
        assert url.netloc in ("", self._host), f"sent to {url.netloc}"
        assert url.scheme in ("", "https")
        path = f"{url.path}?{url.query}" if url.query else url.path
        content = [request.body] if request.is_chunked else request.body
        self._connection.request(
            request.method, path, content, request.headers, encode_chunked=request.is_chunked
        )
        response = self._connection.getresponse()
        answer = response.read()
        # What most SDKs take for success; the others give up or send again.
        assert response.status == 200 or url.path == "/segment", answer
        return answer
