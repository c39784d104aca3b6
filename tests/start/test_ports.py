"""Servers that tests start get ports that nothing takes from them."""

import socket
import subprocess
import sys

import pytest

from config.local.postgres import EmbeddedPostgres, EmbeddedPostgresError
from harness.ports import PORTS, POSTGRESQL, free_port, free_prefix
from tests.database import FAST
from tests.start.folders import data_folder

# What another run does that draws the same number.
CLAIM = "import sys; from harness.ports import _claim; print(_claim(sys.argv[1], int(sys.argv[2])))"


def claimed_elsewhere(host: str, port: int) -> str:
    command = [sys.executable, "-c", CLAIM, host, str(port)]
    return subprocess.check_output(command, text=True).strip()


def test_a_claimed_port_is_free_for_a_server_and_for_no_other_run() -> None:
    port = free_port()
    assert port in PORTS
    assert claimed_elsewhere("127.0.0.1", port) == "False"
    socket.create_server(("127.0.0.1", port)).close()


def test_a_claimed_address_is_free_for_postgresql_and_for_no_other_run() -> None:
    prefix = free_prefix()
    assert claimed_elsewhere(f"{prefix}.1", POSTGRESQL) == "False"
    socket.create_server((f"{prefix}.2", POSTGRESQL)).close()


def test_postgresql_that_does_not_start_shows_its_last_lines() -> None:
    with (
        data_folder("port") as folder,
        socket.create_server((host := f"{free_prefix()}.2", POSTGRESQL)),
    ):
        server = EmbeddedPostgres(folder / "postgres", {**FAST, "listen_addresses": host})
        server.initialise()
        with pytest.raises(EmbeddedPostgresError, match="ends with:") as failure:
            server.start_with_log(folder / "postgres.log")
    assert f'could not bind IPv4 address "{host}": Address already in use' in str(failure.value)
