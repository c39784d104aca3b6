"""An identity provider on loopback, which checks what the service sends as a strict one would, and
which can be told to misbehave. ``tests/clients`` signs in at a certified one."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

CLIENT_ID, CLIENT_SECRET = "eds", "a secret: of the client"
PERSON = {
    "sub": "248289761001",
    "email": "ada@example.com",
    "email_verified": True,
    "name": "Ada Lovelace",
    "groups": ["growth"],
}


@dataclass
class Behavior:
    """What the provider says, and what it does wrong."""

    person: Mapping[str, Any] = field(default_factory=lambda: dict(PERSON))
    # What the ID token has besides, or instead.
    token: Mapping[str, Any] = field(default_factory=dict)
    is_down: bool = False
    signs_with: str = "own"
    # Which key it publishes, under the same id.
    publishes: str = "own"
    in_user_info: tuple[str, ...] = ()
    # What the user information has besides, or instead.
    user_info: Mapping[str, Any] = field(default_factory=dict)
    auth_methods: tuple[str, ...] = ("client_secret_basic",)
    named_issuer: str = ""


class Provider:
    """``with Provider() as provider``"""

    def __init__(self) -> None:
        self.behavior = Behavior()
        self.key_id = "one"
        self.keys_fetched = 0
        self._keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("own", "other")}
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.respond(self, {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                provider.respond(self, dict(parse_qsl(body)))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Provider":
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # --- The person's browser -----------------------------------------------------------------

    def authorize(self, url: str) -> dict[str, str]:
        """The parameters with which the provider sends the person back."""
        parameters = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{self.issuer}/authorize?")
        assert parameters["client_id"] == CLIENT_ID and parameters["response_type"] == "code"
        assert (
            parameters["code_challenge_method"] == "S256"
            and "openid" in parameters["scope"].split()
        )
        assert len(parameters["state"]) >= 32 and len(parameters["nonce"]) >= 32
        code = f"code-{len(self._codes)}"
        self._codes[code] = parameters
        return {"code": code, "state": parameters["state"], "iss": self.issuer}

    # --- The service --------------------------------------------------------------------------

    def respond(self, request: BaseHTTPRequestHandler, form: dict[str, str]) -> None:
        path = urlsplit(request.path).path
        status, answer = (
            (500, {}) if self.behavior.is_down else self._answer(path, form, request.headers)
        )
        body = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _answer(self, path: str, form: dict[str, str], headers: Any) -> tuple[int, dict[str, Any]]:
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.behavior.named_issuer or self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "userinfo_endpoint": f"{self.issuer}/me",
                "jwks_uri": f"{self.issuer}/keys",
                "token_endpoint_auth_methods_supported": list(self.behavior.auth_methods),
            }
        if path == "/keys":
            self.keys_fetched += 1
            published = self._keys[self.behavior.publishes].public_key()
            key = jwt.algorithms.ECAlgorithm.to_jwk(published, as_dict=True)
            return 200, {"keys": [{**key, "kid": self.key_id, "use": "sig", "alg": "ES256"}]}
        if path == "/me" and headers["Authorization"] == "Bearer an access token":
            return 200, {**self.behavior.person, **self.behavior.user_info}
        if path == "/token":
            return self._token(form, headers)
        return 404, {}

    def _token(self, form: dict[str, str], headers: Any) -> tuple[int, dict[str, Any]]:
        basic = base64.b64encode(
            f"{CLIENT_ID}:{urlencode({'': CLIENT_SECRET})[1:]}".encode()
        ).decode()
        by_form = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        if headers["Authorization"] != f"Basic {basic}" and not by_form:
            return 401, {"error": "invalid_client"}
        authorization = self._codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(
            hashlib.sha256(form["code_verifier"].encode()).digest()
        ).rstrip(b"=")
        if (
            authorization is None
            or authorization["code_challenge"] != challenge.decode()
            or authorization["redirect_uri"] != form["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        return 200, {
            "access_token": "an access token",
            "id_token": self._id_token(authorization["nonce"]),
        }

    def _id_token(self, nonce: str) -> str:
        now = int(time.time())
        person = {
            name: value
            for name, value in self.behavior.person.items()
            if name not in self.behavior.in_user_info
        }
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            **person,
            **self.behavior.token,
        }
        if self.behavior.signs_with == "nothing":
            return jwt.encode(claims, "", algorithm="none")
        if self.behavior.signs_with == "the client secret":
            return jwt.encode(claims, CLIENT_SECRET * 2, algorithm="HS256")
        key = self._keys[self.behavior.signs_with]
        return jwt.encode(claims, key, algorithm="ES256", headers={"kid": self.key_id})
