"""Single sign-on with OpenID Connect: the authorization code flow with PKCE, state, and nonce.

This knows the protocol and no logins. The provider's configuration comes from its issuer, and the
ID token is checked with the provider's keys.
"""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import jwt
import requests

# Seconds for connecting, and for each part of a response.
TIMEOUT = (5, 10)
MAX_RESPONSE_BYTES = 1_000_000
# How long a process uses a provider's configuration and keys before it asks again.
CACHE_SECONDS = 3600.0
# How often it asks for the keys again before that, because a token does not fit them.
KEYS_INTERVAL = 60.0
# Of a subject by the standard, and of an address by the mail standards.
MAX_SUBJECT, MAX_EMAIL = 255, 254
# Seconds by which the clocks of the provider and of this machine may differ.
CLOCK_SKEW = 60
# The provider signs with a key of its own. A signature with the client secret says nothing new.
ALGORITHMS = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
)

EMAIL_CLAIMS = ("email", "email_verified")


class SignInRefused(Exception):
    """A sign-in that cannot be completed. The text says why, and what to do."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        # For the log, which has no names and no claims.
        self.reason = reason


@dataclass(frozen=True)
class ProviderSettings:
    """How the service is registered with its identity provider. ``name`` is for people."""

    issuer: str
    client_id: str
    client_secret: str
    name: str = "single sign-on"
    scopes: str = "openid email profile"
    groups_claim: str = "groups"
    trusts_emails: bool = False
    # By scheme.
    proxies: tuple[tuple[str, str], ...] = ()
    ca_bundle: str = ""


@dataclass(frozen=True)
class PendingSignIn:
    """A sign-in that has begun. The session keeps it until the person comes back.

    ``fresh_since`` is the time after which the person must have signed in at the provider.
    """

    state: str
    nonce: str
    verifier: str
    fresh_since: float | None = None


@dataclass(frozen=True)
class Claims:
    """What the provider says about a person. ``groups`` is None if it says nothing of groups."""

    issuer: str
    subject: str
    email: str
    is_email_verified: bool
    name: str
    groups: frozenset[str] | None


class Provider:
    """An identity provider. Its configuration and keys are cached."""

    def __init__(
        self, settings: ProviderSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._cache: dict[str, tuple[float, Any]] = {}
        self._keys_fetched_again_at = float("-inf")

    def begin(
        self, redirect_uri: str, *, fresh_since: float | None = None
    ) -> tuple[str, PendingSignIn]:
        """The URL at the provider for the person's browser. With *fresh_since*, the provider asks
        for the password again."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = hashlib.sha256(verifier.encode()).digest()
        parameters = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": self.settings.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        if fresh_since is not None:
            parameters |= {"prompt": "login", "max_age": "0"}
        endpoint = self._endpoint("authorization_endpoint")
        joint = "&" if "?" in endpoint else "?"
        pending = PendingSignIn(state, nonce, verifier, fresh_since)
        return f"{endpoint}{joint}{urlencode(parameters)}", pending

    def finish(
        self, parameters: Mapping[str, str], redirect_uri: str, pending: PendingSignIn
    ) -> Claims:
        """The claims about the person who came back with these parameters."""
        if not _is_same(parameters.get("state", ""), pending.state):
            raise self._refuse("state", "The sign-in does not belong to this browser. Start again.")
        if parameters.get("iss", self.settings.issuer) != self.settings.issuer:
            raise self._refuse("issuer", "Another provider answered the sign-in. Start again.")
        if "code" not in parameters:
            raise self._refused_by_provider(parameters.get("error", ""))
        tokens = self._exchange(parameters["code"], redirect_uri, pending.verifier)
        claims = self._check(str(tokens.get("id_token", "")), pending)
        return self._read(self._complete(claims, str(tokens.get("access_token", ""))))

    # --- The answer -----------------------------------------------------------------------------

    def _exchange(self, code: str, redirect_uri: str, verifier: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        methods = self._configuration().get("token_endpoint_auth_methods_supported")
        client = (self.settings.client_id, self.settings.client_secret)
        # Without a list, the standard says Basic.
        by_header = not methods or "client_secret_basic" in methods
        if not by_header:
            form |= {"client_id": client[0], "client_secret": client[1]}
        return self._fetch(
            "POST",
            self._endpoint("token_endpoint"),
            data=form,
            auth=requests.auth.HTTPBasicAuth(*map(_form_encoded, client)) if by_header else None,
        )

    def _check(self, token: str, pending: PendingSignIn) -> dict[str, Any]:
        """The claims of the ID token, if it is signed by the provider, for us, and for this
        sign-in."""
        try:
            claims = self._decode(token)
        except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError):
            raise self._refuse(
                "clock",
                f"The clocks of this service and of {self.settings.name} differ by more than a "
                "minute. Ask an administrator to set the clock of the service's machine.",
            ) from None
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise self._invalid() from None
        if not _is_same(str(claims.get("nonce", "")), pending.nonce):
            raise self._invalid()
        # A token for several services names the one that asked for it. One in a list is one.
        is_for_several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        default = None if is_for_several else self.settings.client_id
        if claims.get("azp", default) != self.settings.client_id:
            raise self._invalid()
        signed_in_at = claims.get("auth_time")
        # Some providers ignore the wish for a fresh sign-in, and do not tell.
        since = pending.fresh_since
        is_old = (
            isinstance(signed_in_at, int | float)
            and since is not None
            and (signed_in_at < since - CLOCK_SKEW)
        )
        if is_old:
            raise self._invalid()
        return claims

    def _decode(self, token: str) -> dict[str, Any]:
        """The claims of the token. If the known keys did not sign it, they are fetched again,
        because providers change their keys, but not with each forged token."""
        try:
            return self._decode_with_known_keys(token)
        except (jwt.InvalidKeyError, jwt.InvalidSignatureError):
            if self._clock() - self._keys_fetched_again_at < KEYS_INTERVAL:
                raise
        self._keys_fetched_again_at = self._clock()
        self._get(self._endpoint("jwks_uri"), is_cached=False)
        return self._decode_with_known_keys(token)

    def _decode_with_known_keys(self, token: str) -> dict[str, Any]:
        claims: dict[str, Any] = jwt.decode(
            token,
            self._key(token),
            algorithms=sorted(ALGORITHMS),
            audience=self.settings.client_id,
            issuer=self.settings.issuer,
            leeway=CLOCK_SKEW,
            options={"require": ["exp", "iat", "sub", "aud", "iss"]},
        )
        return claims

    def _key(self, token: str) -> jwt.PyJWK:
        """The provider's key that the token names."""
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in ALGORITHMS:
            raise jwt.InvalidAlgorithmError
        for key in self._get(self._endpoint("jwks_uri")).get("keys", []):
            if key.get("use", "sig") == "sig" and key.get("kid") == header.get("kid"):
                return jwt.PyJWK(key, key.get("alg") or header["alg"])
        raise jwt.InvalidKeyError

    def _complete(self, claims: dict[str, Any], access_token: str) -> dict[str, Any]:
        """The claims, with those that only the provider's user information has. Whether an address
        is verified is said by the document that has the address."""
        names = set(EMAIL_CLAIMS[: 1 if self.settings.trusts_emails else 2])
        url = self._configuration().get("userinfo_endpoint")
        if not url or not access_token or names | {self.settings.groups_claim} <= set(claims):
            return claims
        more = self._fetch("GET", url, headers={"Authorization": f"Bearer {access_token}"})
        if more.get("sub") != claims["sub"]:
            # The standard: of another person, it must not be used.
            return claims
        about_email = next((each for each in (claims, more) if names <= set(each)), claims)
        merged = {**more, **claims}
        for name in EMAIL_CLAIMS:
            merged[name] = about_email.get(name)
        return merged

    def _read(self, claims: dict[str, Any]) -> Claims:
        groups = claims.get(self.settings.groups_claim)
        if isinstance(groups, str):
            groups = [groups]
        subject, email, name = (self._text(claims.get(claim)) for claim in ("sub", "email", "name"))
        if not 0 < len(subject) <= MAX_SUBJECT:
            raise self._invalid()
        is_verified = claims.get("email_verified")
        if is_verified is None:
            is_verified = self.settings.trusts_emails
        is_address = email.find("@") > 0 and len(email) <= MAX_EMAIL
        return Claims(
            issuer=self.settings.issuer,
            subject=subject,
            email=email,
            # Some providers send it as a text. A number says nothing.
            is_email_verified=is_address and (is_verified is True or is_verified == "true"),
            name=name,
            groups=frozenset(map(str, groups)) if isinstance(groups, list) else None,
        )

    def _text(self, claim: object) -> str:
        """The claim as a text that the database can store."""
        text = str(claim or "").strip()
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise self._invalid()
        return text

    # --- The provider ---------------------------------------------------------------------------

    def _configuration(self) -> dict[str, Any]:
        url = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        configuration = self._get(url)
        if configuration.get("issuer") != self.settings.issuer:
            raise self._refuse(
                "configuration",
                f"{self.settings.name} names another issuer than EDS_OIDC_ISSUER. Ask an "
                "administrator to compare the two; a slash at the end counts.",
            )
        return configuration

    def _endpoint(self, name: str) -> str:
        url = self._configuration().get(name)
        if not isinstance(url, str):
            raise self._unavailable()
        return url

    def _get(self, url: str, *, is_cached: bool = True) -> dict[str, Any]:
        at, answer = self._cache.get(url, (0.0, {}))
        if not is_cached or not answer or self._clock() - at > CACHE_SECONDS:
            answer = self._fetch("GET", url)
            self._cache[url] = (self._clock(), answer)
        document: dict[str, Any] = answer
        return document

    def _fetch(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        """The JSON object at the URL. It ignores the environment, credentials in .netrc included,
        and follows no redirect."""
        try:
            with requests.Session() as session:
                session.trust_env = False
                session.proxies.update(self.settings.proxies)
                session.verify = self.settings.ca_bundle or True
                with session.request(
                    method, url, timeout=TIMEOUT, stream=True, allow_redirects=False, **options
                ) as response:
                    body = response.raw.read(MAX_RESPONSE_BYTES, decode_content=True)
                    status = response.status_code
            answer = json.loads(body)
        except (requests.RequestException, OSError, ValueError, RecursionError):
            raise self._unavailable() from None
        if method == "POST" and status in (400, 401):
            raise self._refused_by_provider(str(answer.get("error", "")))
        if status != 200 or not isinstance(answer, dict):
            raise self._unavailable()
        return answer

    # --- What went wrong ------------------------------------------------------------------------

    def _refuse(self, reason: str, text: str) -> SignInRefused:
        return SignInRefused(reason, text)

    def _unavailable(self) -> SignInRefused:
        return self._refuse(
            "provider unavailable",
            f"{self.settings.name} does not answer as it should. Try again in a minute. If it "
            "lasts, ask an administrator.",
        )

    def _invalid(self) -> SignInRefused:
        return self._refuse(
            "invalid token",
            f"The answer of {self.settings.name} is not valid for this sign-in. Start again.",
        )

    def _refused_by_provider(self, error: str) -> SignInRefused:
        if error == "invalid_client":
            return self._refuse(
                error,
                f"{self.settings.name} does not accept this service's client id or secret. Ask an "
                "administrator to correct EDS_OIDC_CLIENT_ID and EDS_OIDC_CLIENT_SECRET.",
            )
        if error == "access_denied":
            return self._refuse(error, f"{self.settings.name} refused the sign-in. Start again.")
        if error == "invalid_grant":
            return self._refuse(error, "The sign-in took too long. Start again.")
        return self._refuse("provider error", f"{self.settings.name} reported an error. Try again.")


def _is_same(text: str, secret: str) -> bool:
    return secrets.compare_digest(text.encode(), secret.encode())


def _form_encoded(text: str) -> str:
    """The standard encodes the id and the secret before they go into the Basic header."""
    return urlencode({"": text})[1:]
