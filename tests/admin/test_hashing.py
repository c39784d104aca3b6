"""Hashing a password is slow on purpose, and no other request waits for it."""

import subprocess
import sys

import pytest
from django.conf import settings
from django.contrib.auth.hashers import check_password, make_password
from django.db import connection, transaction

from access.logins import hashing

# In a process patched like a web process: a hash that blocked it would be ready at once.
PROGRAM = """
from gevent import monkey
monkey.patch_all()
import gevent, django
django.setup()
from django.contrib.auth import hashers
from access.logins import hashing

one = gevent.spawn(hashers.make_password, "secret")
gevent.sleep(0)
assert not one.ready(), "the hash held up the process"
assert hashers.check_password("secret", one.get())

running, most = 0, 0
encode = hashers.PBKDF2PasswordHasher.encode

def counted(*arguments):
    global running, most
    running += 1
    most = max(most, running)
    try:
        return encode(*arguments)
    finally:
        running -= 1

hashers.PBKDF2PasswordHasher.encode = counted
wrong = [gevent.spawn(hashers.check_password, f"guess {n}", one.get()) for n in range(6)]
gevent.joinall(wrong)
assert not any(each.get() for each in wrong)
assert most <= hashing.MAX_CONCURRENT_HASHES, most
"""


@pytest.mark.slow
def test_a_password_is_hashed_beside_other_requests_and_few_at_once() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=settings.BASE_DIR, check=True, timeout=120)


def test_hashes_are_those_that_django_made_before() -> None:
    password_hash = make_password("secret")
    assert password_hash.startswith("pbkdf2_sha256$")
    assert check_password("secret", password_hash)


@pytest.mark.django_db(transaction=True)
def test_a_login_that_waits_holds_no_database_connection() -> None:
    connection.ensure_connection()
    hashing.release_connections()
    assert connection.connection is None
    with transaction.atomic():
        connection.ensure_connection()
        hashing.release_connections()
        assert connection.connection is not None
