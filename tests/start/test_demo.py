"""``up --demo`` shows a newcomer a live connection, and leaves none behind that is not real."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.start.running import Up, free_port, manage, survivors, until

pytestmark = pytest.mark.slow

# The first start's own product, connected to what is not the demo's marketplace.
CONNECT_ANOTHER = """
from django.utils import timezone
from engagement.models import Product
from marketplace.models import Connection
Connection.objects.create(
    product=Product.objects.get(name="My product"), state="requires_authentication",
    state_changed_at=timezone.now(), user_name="us", api_token="t", vendor_id="1",
    app_product_id="9d71209f-f2d4-5522-8742-716b66c6574f",
)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not tmp_path: PostgreSQL's own user must be able to reach it, and its path stays short.
    folder = Path(tempfile.mkdtemp(prefix="eds-demo-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Admin:
    """The admin of a running service, as whoever started it sees it."""

    def __init__(self, up: Up) -> None:
        self.address = f"http://127.0.0.1:{up.port}"
        self.session = requests.Session()
        self.page("/admin/login/")
        login = {"username": "admin", "password": up.credentials["admin_password"]}
        token = {"csrfmiddlewaretoken": self.session.cookies["csrftoken"]}
        self.session.post(f"{self.address}/admin/login/", {**login, **token}, timeout=10)

    def page(self, path: str) -> str:
        return self.session.get(self.address + path, timeout=10).text

    def connections(self) -> list[str]:
        """The address of each connection's page."""
        listed = self.page("/admin/marketplace/connection/")
        return sorted(
            set(re.findall(r'href="(/admin/marketplace/connection/\d+/change/)"', listed))
        )


def state_of(up: Up) -> tuple[str, str]:
    """The address of the one connection's page, and the page."""
    admin = Admin(up)
    with admin.session:
        (address,) = admin.connections()
        return address, admin.page(address)


def test_the_demos_product_is_connected_at_each_start_and_only_in_the_demo(folder: Path) -> None:
    first = Up(folder, "--demo").wait_until_running()
    try:
        until(lambda: "Succeeded." in state_of(first)[1], "a sync that succeeded")
        address, page = state_of(first)
        assert "<strong>Connected.</strong>" in page
        assert 'data-label="Licenses seen">300<' in page
        processes = first.processes()
    finally:
        first.end()
    assert survivors(processes) == []

    again = Up(folder, "--demo").wait_until_running()
    try:
        same, page = state_of(again)
        assert same == address and "<strong>Connected.</strong>" in page
    finally:
        again.end()

    without = Up(folder).wait_until_running()
    try:
        same, page = state_of(without)
        assert same == address and "<strong>Disconnected.</strong>" in page
        assert not without.named("marketplace_simulator")
        made = manage(folder, "shell", "-c", CONNECT_ANOTHER)
        assert made.returncode == 0, made.stderr
    finally:
        without.end()

    beside = manage(folder, "up", "--demo", "--port", str(free_port()))
    assert beside.returncode == 1
    assert "are connected to a real one; set EDS_DATA_DIR" in beside.stderr
    assert "Traceback" not in beside.stderr
