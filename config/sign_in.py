"""Checks the settings of signing in, with errors that say what is wrong and what to do.

``config.settings`` reads them from the environment.
"""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from config import environment

ROLES = ("viewer", "manager")
SUPERUSER = "superuser"


def oidc(*, issuer: str, client_id: str, client_secret: str, **others: Any) -> dict[str, Any]:
    """The settings of the identity provider; empty if none is set."""
    values = {
        "EDS_OIDC_ISSUER": issuer,
        "EDS_OIDC_CLIENT_ID": client_id,
        "EDS_OIDC_CLIENT_SECRET": client_secret,
    }
    if not any(values.values()):
        return {}
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise ImproperlyConfigured(
            f"{' and '.join(missing)} must be set, too: single sign-on needs the issuer, the "
            "client id, and the client secret."
        )
    parts = urlsplit(issuer)
    is_safe = parts.scheme == "https" or environment.is_loopback(parts.hostname or "")
    if not parts.hostname or not is_safe or parts.query or parts.fragment:
        raise ImproperlyConfigured(
            "EDS_OIDC_ISSUER must look like https://login.example.com/path, exactly as the "
            "provider writes it."
        )
    if "openid" not in others["scopes"].split():
        raise ImproperlyConfigured("EDS_OIDC_SCOPES must contain openid.")
    return {
        "issuer": issuer,
        "client_id": client_id,
        "client_secret": client_secret,
        "proxies": environment.proxies(issuer),
        **others,
    }


def role_mapping(name: str, value: str) -> dict[str, list[tuple[str, str]]]:
    """The roles of each group, as pairs of role and product, from ``group=role`` or
    ``group=product:role``, separated by commas, or from a JSON object of lists."""
    mapping: dict[str, list[tuple[str, str]]] = {}
    for group, target in _pairs(name, value):
        product, _, role = target.rpartition(":")
        is_valid = (role == SUPERUSER and not product) or (role in ROLES and product)
        if not group or not is_valid:
            raise ImproperlyConfigured(
                f"{name} has {group}={target}, which is no role. Write group=superuser, "
                "group=product:manager, or group=product:viewer, with the product's name or id."
            )
        mapping.setdefault(group, []).append((role, product))
    return mapping


def _pairs(name: str, value: str) -> list[tuple[str, str]]:
    if value.startswith("{"):
        try:
            parsed = json.loads(value)
            return [
                (group, str(target)) for group, targets in parsed.items() for target in [*targets]
            ]
        except (ValueError, TypeError):
            raise ImproperlyConfigured(
                f'{name} must be JSON such as {{"growth": ["Acme:manager"]}}, or '
                "growth=Acme:manager,admins=superuser."
            ) from None
    # The name of a group may have an equals sign, but no role has one.
    splits = [item.rpartition("=") for item in value.split(",") if item.strip()]
    return [(group.strip(), target.strip()) for group, _, target in splits]


def check_ways_in(has_passwords: bool, break_glass: str, has_single_sign_on: object) -> None:
    """Refuse settings with which nobody could sign in, or that have no effect."""
    if has_passwords:
        if break_glass:
            raise ImproperlyConfigured(
                "EDS_BREAK_GLASS_LOGIN has no effect while all logins may use passwords. Set "
                "EDS_LOCAL_PASSWORDS=false, or remove it."
            )
    elif not has_single_sign_on:
        raise ImproperlyConfigured(
            "EDS_LOCAL_PASSWORDS=false needs another way to sign in: set EDS_OIDC_ISSUER."
        )


def retired_text(names: Sequence[str]) -> str:
    """What somebody should know who still sets these variables."""
    return (
        f"{', '.join(names)}: proxies that sign people in are gone, so this has no effect. Remove "
        "it, and use single sign-on (EDS_OIDC_ISSUER)."
    )


def password_validators(leaked_passwords: str) -> list[dict[str, Any]]:
    """Django's validators and ours; *leaked_passwords* is a file of them, or empty."""
    validators: list[dict[str, Any]] = [
        {"NAME": f"django.contrib.auth.password_validation.{name}"}
        for name in (
            "UserAttributeSimilarityValidator",
            "MinimumLengthValidator",
            "CommonPasswordValidator",
            "NumericPasswordValidator",
        )
    ]
    validators.append({"NAME": "access.logins.passwords.ServiceWordsValidator"})
    if leaked_passwords:
        validators.append(
            {
                "NAME": "access.logins.passwords.LeakedPasswordValidator",
                "OPTIONS": {"path": leaked_passwords},
            }
        )
    return validators
