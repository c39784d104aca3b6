"""The admin of a running service as a person uses it: over HTTP, with a session."""

import re
from types import TracebackType
from typing import Any

import requests

from tests.start.running import Up


class Admin:
    """Logged in as whom the first start made. ``with Admin(up) as admin``."""

    def __init__(self, up: Up) -> None:
        self.address = f"http://127.0.0.1:{up.port}"
        self.session = requests.Session()
        login = "/admin/login/?next=/admin/"
        self.page(login)
        self.press(login, username="admin", password=up.credentials["admin_password"])

    def __enter__(self) -> "Admin":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.session.close()

    def page(self, path: str) -> str:
        return self._text(self.session.get(self.address + path, timeout=30))

    def press(self, path: str, **values: Any) -> str:
        """Post a form; the page that follows."""
        token = {"csrfmiddlewaretoken": self.session.cookies["csrftoken"]}
        return self._text(self.session.post(self.address + path, {**values, **token}, timeout=30))

    def connections(self) -> list[str]:
        """The address of each marketplace connection, its page's without ``change/``."""
        listed = self.page("/admin/marketplace/connection/")
        return sorted(set(re.findall(r'"(/admin/marketplace/connection/\d+/)change/"', listed)))

    def _text(self, answer: requests.Response) -> str:
        assert answer.status_code == 200, (answer.url, answer.status_code)
        return answer.text
