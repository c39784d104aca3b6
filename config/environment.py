"""Reads settings from environment variables, with errors that say what is wrong and what to do.

Only ``config.settings`` uses it. Nothing else in the service reads the environment, except
``config.logging.json_streams``, which works before there are settings.
"""

import json
import os
import re
import secrets
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import (  # type: ignore[attr-defined]  # the second is not in the stubs
    getproxies_environment,
    proxy_bypass_environment,
)

import dj_database_url
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from kombu.transport import TRANSPORT_ALIASES

from core import durable_files


def text(name: str, default: str = "") -> str:
    """Return the variable's value, or the text of the file that ``NAME_FILE`` names."""
    return os.environ.get(name, "").strip() or _file_text(f"{name}_FILE") or default


def _file_text(name: str) -> str:
    path = os.environ.get(name, "").strip()
    try:
        return Path(path).read_text().strip() if path else ""
    except (OSError, ValueError):
        raise ImproperlyConfigured(f"{name} names a file that cannot be read: {path}.") from None


def required_text(name: str, why: str) -> str:
    """Return the variable's value. If it is not set, raise ImproperlyConfigured with *why*."""
    value = text(name)
    if not value:
        raise ImproperlyConfigured(f"{name} is not set: {why}")
    return value


def require_length(name: str, value: str, minimum: int, remedy: str) -> None:
    """Raise ImproperlyConfigured with *remedy* if the secret is short enough to be guessed."""
    if len(value) < minimum:
        raise ImproperlyConfigured(
            f"{name} must have {minimum} random characters or more, not {len(value)}. {remedy}"
        )


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
    """Return the address of an HTTP server, without a trailing slash."""
    value = text(name, default)
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or set("?#@") & set(value):
        raise ImproperlyConfigured(
            f"{name} must look like https://host or https://host/path, without a user name."
        )
    return value.rstrip("/")


def marketplace_url(name: str, default: str, *, is_http_allowed: bool) -> str:
    """Return the address of the marketplace. The token is sent there, so it must be HTTPS, except
    on this machine or if *is_http_allowed*."""
    url = http_url(name, default)
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or "") and not is_http_allowed:
        raise ImproperlyConfigured(
            f"{name} begins with http://, so everybody on the way could read the API tokens. Use "
            "https://, or set EDS_MARKETPLACE_ALLOW_HTTP=true if the network is yours."
        )
    return url


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def proxies(url: str) -> dict[str, str]:
    """Return the proxies for requests to *url* by their scheme, from the usual variables:
    HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, and NO_PROXY, in capitals or not."""
    variables: dict[str, str] = getproxies_environment()
    parts = urlsplit(url)
    if is_loopback(parts.hostname or "") or proxy_bypass_environment(parts.netloc, variables):
        return {}
    return {scheme: variables[scheme] for scheme in ("http", "https", "all") if scheme in variables}


def https_proxy() -> tuple[str, str]:
    """Return the proxy of requests by HTTPS to any host, or "", and the hosts that need none, from
    the same variables."""
    variables: dict[str, str] = getproxies_environment()
    return variables.get("https", variables.get("all", "")), variables.get("no", "")


def which_are_set(*names: str) -> list[str]:
    """Return those of the variables that are set."""
    return [name for name in names if text(name)]


def file_path(name: str) -> str:
    """Return the path of an existing file or folder, or ""."""
    path = text(name)
    if path and not Path(path).exists():
        raise ImproperlyConfigured(f"{name} names a file that cannot be found: {path}.")
    return path


def report_url(name: str) -> str:
    """Return the address that browsers report to, or "". It must be safe in a header."""
    value = text(name)
    if value and not re.fullmatch(r"https?://[!#-+\--:<-~]+", value):
        raise ImproperlyConfigured(
            f"{name} must look like https://host/path, without spaces, commas, or semicolons."
        )
    return value


def broker_url(name: str, default: str) -> str:
    """Return the address of a broker that Celery supports, or several separated by semicolons."""
    value = text(name, default)
    for url in value.split(";"):
        if urlsplit(url.strip()).scheme.split("+")[0] not in TRANSPORT_ALIASES:
            # The message leaves out the address, which may hold a password.
            raise ImproperlyConfigured(
                f"{name} must look like redis://host:6379/0 or amqp://user:password@host:5672//."
            )
    return value


def comma_separated(name: str, default: str = "") -> list[str]:
    """Return the items of a comma-separated list, without empty ones."""
    return _items(text(name, default))


def email(name: str) -> dict[str, Any]:
    """Return Django's settings of the mail server at the variable's URL; empty if it is not set."""
    value = text(name)
    if not value:
        return {}
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    ports = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
    if not host or parts.scheme not in ports:
        # The message leaves out the value, which may hold a password.
        raise ImproperlyConfigured(
            f"{name} must look like smtp+tls://user:password@host:587 (STARTTLS), "
            "smtps://user:password@host:465 (TLS), or smtp://host:25 (neither)."
        )
    return {
        "EMAIL_HOST": host,
        "EMAIL_PORT": port or ports[parts.scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": parts.scheme == "smtp+tls",
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        # Seconds of each step; a page waits for a test.
        "EMAIL_TIMEOUT": 10,
    }


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    """Return comma-separated networks such as 10.0.0.0/8."""
    try:
        return [ip_network(item) for item in comma_separated(name)]
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name} must hold networks such as 10.0.0.0/8, separated by commas: {error}."
        ) from None


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def fernet_keys(name: str, value: str) -> list[str]:
    """Return comma-separated Fernet keys. The first encrypts, all of them decrypt."""
    keys = _items(value)
    for key in keys:
        try:
            Fernet(key)
        except ValueError:
            # The message leaves out the key, which is a secret.
            raise ImproperlyConfigured(
                f"{name} holds a value that is not a Fernet key (32 random bytes in URL-safe "
                "base64). `python manage.py generate_key` prints a new one."
            ) from None
    return keys


def database(name: str, url: str) -> dict[str, Any]:
    """Return Django's settings of the PostgreSQL database at *url*, the variable's value."""
    if urlsplit(url).scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            f"{name} must look like postgresql://user:password@host:5432/name."
        )
    try:
        parsed: dict[str, Any] = dict(dj_database_url.parse(url))
    except Exception:
        # The parser's message may quote the address with its password.
        raise ImproperlyConfigured(
            f"{name} cannot be read; it must look like "
            "postgresql://user:password@host:5432/name, with special characters of the "
            "password percent-encoded."
        ) from None
    if not parsed.get("NAME"):
        raise ImproperlyConfigured(f"{name} names no database after the last slash.")
    return parsed


def local_secrets(data_dir: Path) -> dict[str, str]:
    """Return the secrets of a service on one machine. Create them on the first start.

    ``secrets.json`` in the data folder keeps them, readable by its owner only. A service with a
    DATABASE_URL gets its secrets from the environment instead.
    """
    path = data_dir / "secrets.json"
    try:
        # The folder may be new, and its name must last as long as what it holds.
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            durable_files.create(path, json.dumps(_new_secrets()))
            durable_files.sync_folder(data_dir.parent)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The data folder {data_dir} cannot be written ({error.strerror}); "
            "set EDS_DATA_DIR to a folder that can."
        ) from None
    try:
        stored: dict[str, str] = json.loads(path.read_text())
        return {name: stored[name] for name in ("secret_key", "encryption_key")}
    except (ValueError, KeyError, OSError):
        raise ImproperlyConfigured(
            f"{path} is damaged or cannot be read. It holds the keys of encrypted values. Restore "
            "it from a backup, or delete it to start with new keys."
        ) from None


def _new_secrets() -> dict[str, str]:
    return {
        "secret_key": secrets.token_urlsafe(50),
        "encryption_key": Fernet.generate_key().decode(),
    }


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child process: ours, with *variables* on top."""
    return {**os.environ, **variables}
