"""Reads settings from environment variables and says plainly what is wrong with one.

Only ``config.settings`` uses this: nothing else in the service reads the environment.
"""

import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dj_database_url
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from kombu.transport import TRANSPORT_ALIASES


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def required_text(name: str, why: str) -> str:
    """The variable's value; ImproperlyConfigured with *why* it is needed where it is not set."""
    value = text(name)
    if not value:
        raise ImproperlyConfigured(f"{name} is not set: {why}")
    return value


def integer(name: str, default: int, *, minimum: int = 0) -> int:
    value = text(name)
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}.") from None
    if number < minimum:
        raise ImproperlyConfigured(f"{name} must be at least {minimum}, not {number}.")
    return number


def flag(name: str, default: bool = False) -> bool:
    value = text(name).lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {value!r}.")


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    return value


def http_url(name: str, default: str) -> str:
    """The address of an HTTP server, without a slash at its end."""
    value = text(name, default)
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or set("?#@") & set(value):
        raise ImproperlyConfigured(
            f"{name} must look like https://host or https://host/path, without a user name."
        )
    return value.rstrip("/")


def report_url(name: str) -> str:
    """The address that browsers report to; empty where there is none. It goes into a header."""
    value = text(name)
    if value and not re.fullmatch(r"https?://[!#-+\--:<-~]+", value):
        raise ImproperlyConfigured(
            f"{name} must look like https://host/path, without spaces, commas and semicolons."
        )
    return value


def broker_url(name: str, default: str) -> str:
    """The address of a broker of a kind that Celery knows, or several between semicolons."""
    value = text(name, default)
    for one in value.split(";"):
        if urlsplit(one.strip()).scheme.split("+")[0] not in TRANSPORT_ALIASES:
            # The address itself stays out of the message: it may hold a password.
            raise ImproperlyConfigured(
                f"{name} must look like redis://host:6379/0 or amqp://user:password@host:5672//."
            )
    return value


def comma_separated(name: str, default: str = "") -> list[str]:
    """A comma-separated list; empty items are left out."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def fernet_keys(name: str, value: str) -> list[str]:
    """Comma-separated Fernet keys; the first encrypts, all of them decrypt."""
    keys = [key.strip() for key in value.split(",") if key.strip()]
    for key in keys:
        try:
            Fernet(key)
        except ValueError:
            # The key itself stays out of the message: it is a secret.
            raise ImproperlyConfigured(
                f"{name} holds something that is no Fernet key (32 random bytes in URL-safe "
                "base64). `python manage.py generate_key` prints a new one."
            ) from None
    return keys


def database(name: str, url: str) -> dict[str, Any]:
    """Django's database settings for *url*, the variable's value: a PostgreSQL database."""
    if urlsplit(url).scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            f"{name} must look like postgresql://user:password@host:5432/name."
        )
    try:
        parsed: dict[str, Any] = dict(dj_database_url.parse(url))
    except Exception:
        # The parser's own message may quote the address with its password.
        raise ImproperlyConfigured(
            f"{name} cannot be read; it must look like "
            "postgresql://user:password@host:5432/name, with special characters of the "
            "password percent-encoded."
        ) from None
    if not parsed.get("NAME"):
        raise ImproperlyConfigured(f"{name} names no database after the last slash.")
    return parsed


def local_secrets(data_dir: Path) -> dict[str, str]:
    """The secrets of a service on one machine, made on the first start.

    They live in ``secrets.json`` in the data folder, readable by its owner only. A service with
    a DATABASE_URL of its own gets its secrets from the environment instead.
    """
    path = data_dir / "secrets.json"
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    except OSError as error:
        raise ImproperlyConfigured(
            f"The data folder {data_dir} cannot be written ({error.strerror}); "
            "set EDS_DATA_DIR to a folder that can."
        ) from None
    else:
        with os.fdopen(descriptor, "w") as file:
            made = {
                "secret_key": secrets.token_urlsafe(50),
                "encryption_key": Fernet.generate_key().decode(),
            }
            json.dump(made, file)
    try:
        stored: dict[str, str] = json.loads(path.read_text())
        return {name: stored[name] for name in ("secret_key", "encryption_key")}
    except (ValueError, KeyError, OSError):
        raise ImproperlyConfigured(
            f"{path} is damaged or cannot be read. It holds the keys to encrypted values: restore "
            "it from a backup, or delete it to start with new keys."
        ) from None


def child_environment(more: Mapping[str, str]) -> dict[str, str]:
    """The environment that a child process gets: ours, with *more* on top."""
    return {**os.environ, **more}
