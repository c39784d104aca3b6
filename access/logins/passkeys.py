"""Passkeys: registering one, and proving that one has it (WebAuthn)."""

import base64
import ipaddress
import json
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User as AdminUser
from django.http import HttpRequest
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from access.logins import second_factors
from access.models import SecondFactor

# What a browser sends is small.
MAX_RESPONSE = 20_000


class PasskeyRefused(Exception):
    """The browser's answer is not valid. The text says what to do."""


def host_problem(request: HttpRequest) -> str:
    """Why browsers allow no passkeys at this address; empty if they do."""
    try:
        ipaddress.ip_address(_host(request).strip("[]"))
    except ValueError:
        pass
    else:
        return "Passkeys need a host name. Open this page by a name instead of an IP address."
    if not request.is_secure() and _host(request) != "localhost":
        return "Passkeys need HTTPS."
    return ""


def begin_registration(request: HttpRequest, login: AdminUser) -> tuple[Any, Any]:
    """What the browser needs to make a passkey, and the state to check its answer with."""
    person = PublicKeyCredentialUserEntity(
        id=str(login.pk).encode(), name=login.get_username(), display_name=login.get_full_name()
    )
    options, state = _server(request).register_begin(
        person,
        _credentials(login),
        resident_key_requirement=ResidentKeyRequirement.DISCOURAGED,
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return dict(options), state


def finish_registration(
    request: HttpRequest, login: AdminUser, state: Any, response: str, name: str, now: datetime
) -> SecondFactor:
    try:
        credential = _server(request).register_complete(state, _parsed(response))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise PasskeyRefused("The browser's answer is not valid. Try again.") from None
    assert credential.credential_data is not None
    return SecondFactor.objects.create(
        user=login,
        kind=SecondFactor.Kind.PASSKEY,
        name=name,
        secret=base64.b64encode(credential.credential_data).decode(),
        last_used=credential.counter,
        last_used_at=now,
    )


def begin_proof(request: HttpRequest, login: AdminUser) -> tuple[Any, Any] | None:
    """What the browser needs to prove a passkey, and the state; None if there is no passkey."""
    credentials = _credentials(login)
    if not credentials:
        return None
    options, state = _server(request).authenticate_begin(
        credentials, user_verification=UserVerificationRequirement.PREFERRED
    )
    return dict(options), state


def use_passkey(
    request: HttpRequest, login: AdminUser, state: Any, response: str, now: datetime
) -> bool:
    """Check the proof. Returns False if it is not valid, or is of a copied passkey."""
    passkeys = {_credential(row).credential_id: row for row in _passkeys(login)}
    try:
        answer = AuthenticationResponse.from_dict(_parsed(response))
        credential = _server(request).authenticate_complete(
            state, [_credential(row) for row in passkeys.values()], answer
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return False
    row, count = passkeys[credential.credential_id], answer.response.authenticator_data.counter
    if count == 0 == row.last_used:
        # It does not count. Most passkeys that are synchronized do not.
        SecondFactor.objects.filter(pk=row.pk).update(last_used_at=now)
        return True
    return second_factors.use_once(row, count, now)


def _passkeys(login: AdminUser) -> list[SecondFactor]:
    rows = SecondFactor.objects.filter(user=login, kind=SecondFactor.Kind.PASSKEY)
    # One without a key was discarded with a lost encryption key.
    return [row for row in rows if row.secret]


def _credential(row: SecondFactor) -> AttestedCredentialData:
    return AttestedCredentialData(base64.b64decode(row.secret))


def _credentials(login: AdminUser) -> list[AttestedCredentialData]:
    return [_credential(row) for row in _passkeys(login)]


def _parsed(response: str) -> dict[str, Any]:
    try:
        parsed = json.loads(response[:MAX_RESPONSE])
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(parsed, dict):
        raise ValueError("not an object")
    return parsed


def _host(request: HttpRequest) -> str:
    host: str = request.get_host()
    return host if host.endswith("]") else host.rsplit(":", 1)[0]


def _server(request: HttpRequest) -> Fido2Server:
    party = PublicKeyCredentialRpEntity(id=_host(request), name=second_factors.ISSUER)
    return Fido2Server(party, verify_origin=lambda origin: origin == _origin(request))


def _origin(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"
