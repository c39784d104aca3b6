from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import NamedTuple

import pytest
from pytest_django import Settings

from exports import writing
from tests.exports.mirror import Mirror, running_mirror
from tests.exports.rows import MemoryStore
from tests.notifications.rows import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A store in memory, for all exports."""
    store = MemoryStore()
    monkeypatch.setattr(writing, "open_store", lambda export: store)
    return store


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    """The folder that the operator has set."""
    root = tmp_path / "exports"
    root.mkdir()
    settings.EXPORT_FOLDER = str(root)
    return root


class Bucket(NamedTuple):
    """A bucket on an S3 server that verifies signatures, and who may write to it."""

    endpoint: str
    name: str
    access_key_id: str
    secret_access_key: str


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str, settings: Settings) -> Iterator[Bucket]:
    import boto3
    import requests

    settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("127.0.0.0/8")]
    keys = {"aws_access_key_id": "planted", "aws_secret_access_key": "planted"}
    options = {"endpoint_url": s3_server, "region_name": "us-east-1", **keys}
    client = boto3.client("s3", **options)
    client.create_bucket(Bucket="warehouse")
    iam = boto3.client("iam", **options)
    iam.create_user(UserName="eds")
    key = iam.create_access_key(UserName="eds")["AccessKey"]
    policy = (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": '
        '["s3:PutObject", "s3:DeleteObject"], "Resource": "arn:aws:s3:::warehouse/*"}]}'
    )
    iam.put_user_policy(UserName="eds", PolicyName="write", PolicyDocument=policy)
    # From now on the server checks who asks.
    requests.post(f"{s3_server}/moto-api/reset-auth", data="0", timeout=10)
    yield Bucket(s3_server, "warehouse", key["AccessKeyId"], key["SecretAccessKey"])
    requests.post(f"{s3_server}/moto-api/reset-auth", data="inf", timeout=10)
    requests.post(f"{s3_server}/moto-api/reset", timeout=10)


@pytest.fixture(scope="session")
def mirror_server() -> Iterator[Mirror]:
    with running_mirror() as server:
        yield server


@pytest.fixture
def mirror(mirror_server: Mirror, settings: Settings) -> Mirror:
    """A PostgreSQL of somebody else, in a network that the operator has allowed."""
    settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("127.0.0.0/8")]
    mirror_server.empty()
    return mirror_server
