"""Salesforce: accounts and contacts, by its REST API, as an app with credentials of its own.

A batch has a result for each row, in its order. A record that was merged or deleted is absent from
queries, reads as null, and its row in a batch fails with a code of its own.
"""

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from django.conf import settings

from core.outbound.requests import Result
from destinations.records import domain_of
from destinations.vendors.base import (
    BatchRejected,
    Client,
    CredentialsRejected,
    Field,
    FieldType,
    NotAllowed,
    Throttled,
    VendorError,
    Write,
    Written,
    cut,
    decode,
)

# Three versions come each year, and each is supported for some years.
VERSION: Final = "v66.0"
# A My Domain, also of a sandbox: only Salesforce gets the secret.
_HOST = re.compile(r"([a-z0-9-]+\.)+my\.salesforce\.com")
# Others share the quota of the last 24 hours: above this many percent of it nothing is sent.
ORG_PERCENT = 80
# Seconds until some of that quota is free again, and until long requests of others have ended.
DAY_WAIT, BUSY_WAIT = 3600.0, 30.0
# Rows that others hold are sent again in small batches, after this many seconds.
LOCK_PAUSE, LOCK_TRIES, LOCK_BATCH = 1.0, 3, 20
# A server refuses longer addresses, and a query is a part of one.
_QUERY_LENGTH = 10_000
_USAGE = re.compile(r"api-usage=(\d+)/(\d+)")
_LOCKED = ("UNABLE_TO_LOCK_ROW", "Too many SOQL queries")
_GONE = {"ENTITY_IS_DELETED", "INVALID_CROSS_REFERENCE_KEY", "NOT_FOUND"}
_NO_RIGHT = {
    *("INVALID_FIELD", "INVALID_FIELD_FOR_INSERT_UPDATE", "INVALID_TYPE"),
    *("INSUFFICIENT_ACCESS", "INSUFFICIENT_ACCESS_OR_READONLY", "API_DISABLED_FOR_ORG"),
    *("API_CURRENTLY_DISABLED", "FORBIDDEN"),
}
_NUMBERS = ("double", "currency", "percent", "int", "long")
_TEXTS = ("string", "textarea", "email", "phone", "url", "combobox")
_TYPES: dict[str, FieldType] = {
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys(_TEXTS, "text"),
    **{"boolean": "boolean", "date": "day", "datetime": "time"},
    **{"picklist": "choice", "multipicklist": "choice"},
}
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


@dataclass
class Salesforce(Client):
    # The session, with the address that it is for.
    session: tuple[str, str] | None = field(default=None, init=False, repr=False)
    usage_percent: float = field(default=0, init=False)

    usual_limit = 5_000
    batch = 200
    domain_fields = frozenset({"Website"})

    @property
    def _object(self) -> str:
        return "Account" if self.is_of_accounts else "Contact"

    @staticmethod
    def record_id(text: str) -> str:
        """Ids of 18 characters: those of 15, as reports show them, with a sum of their cases."""
        if not text.isalnum() or not text.isascii() or len(text) not in (15, 18):
            return ""
        parts = [text[start : start + 5] for start in (0, 5, 10)]
        sums = [sum(char.isupper() << place for place, char in enumerate(part)) for part in parts]
        return text[:15] + "".join(_ALPHABET[each] for each in sums)

    def fields(self) -> list[Field]:
        infos = self._send("GET", f"/sobjects/{self._object}/describe").get("fields", ())
        return [_field(each) for each in infos if each.get("updateable")]

    def find(self, field: Field, values: Sequence[str]) -> dict[str, set[str]]:
        ids_of: dict[str, set[str]] = {value.lower(): set() for value in values}
        is_site = field.name in self.domain_fields
        if is_site:
            # The text of a site is free, so what contains the domain is compared as a host.
            tests = [f"{field.name} LIKE '%{_like(value)}%'" for value in ids_of]
            records = self._queries(field.name, "", tests, " OR ", "")
        else:
            texts = [f"'{_escaped(value)}'" for value in ids_of]
            records = self._queries(field.name, f"{field.name} IN (", texts, ",", ")")
        for record in records:
            text = str(record.get(field.name) or "")
            value = domain_of(text) if is_site else text.strip().lower()
            if value in ids_of:
                ids_of[value].add(record["Id"])
        return ids_of

    def read(self, ids: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        body = {"ids": list(ids), "fields": ["Id", *fields]}
        results = self._send("POST", f"/composite/sobjects/{self._object}", body).get("results", ())
        # Nothing stands for a record that is gone.
        return {each["Id"]: each for each in results if each}

    def update(self, writes: Sequence[Write]) -> list[Written]:
        rows = [{"id": write.remote_id, **write.values} for write in writes]
        return self._write("", rows)

    def upsert(self, id_field: str, writes: Sequence[Write]) -> list[Written]:
        return self._write(f"/{self._object}/{id_field}", [dict(write.values) for write in writes])

    # --- Requests -------------------------------------------------------------------------------

    def _write(self, path: str, rows: Sequence[dict[str, Any]]) -> list[Written]:
        """What became of each row. Those that somebody else holds are sent again."""
        results = self._write_once(path, rows)
        for number in range(1, LOCK_TRIES):
            places = [place for place, each in enumerate(results) if _is_locked(each)]
            if places:
                time.sleep(LOCK_PAUSE * number)
            for start in range(0, len(places), LOCK_BATCH):
                part = places[start : start + LOCK_BATCH]
                again = self._write_once(path, [rows[place] for place in part])
                for place, result in zip(part, again, strict=True):
                    results[place] = result
        if results and all(_code(each) in _NO_RIGHT for each in results):
            raise NotAllowed(f"Salesforce does not allow it. {_outcome(results[0]).error}")
        return [_outcome(each) for each in results]

    def _write_once(self, path: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        attributes = {"attributes": {"type": self._object}}
        body = {"allOrNone": False, "records": [{**attributes, **row} for row in rows]}
        results = self._send("PATCH", f"/composite/sobjects{path}", body).get("results") or []
        if len(results) != len(rows):
            raise VendorError("Salesforce confirmed only a part of a batch.")
        return list(results)

    def _queries(
        self, name: str, start: str, tests: Sequence[str], joint: str, end: str
    ) -> Iterator[dict[str, Any]]:
        """The records that pass one of the tests, by queries that are short enough."""
        part: list[str] = []
        length = 0
        for number, test in enumerate(tests, 1):
            part.append(test)
            length += len(quote(test + joint))
            if length >= _QUERY_LENGTH or number == len(tests):
                query = f"SELECT Id,{name} FROM {self._object} WHERE {start}{joint.join(part)}{end}"
                yield from self._records(f"/query?{urlencode({'q': query})}")
                part, length = [], 0

    def _records(self, path: str) -> Iterator[dict[str, Any]]:
        while path:
            page = self._send("GET", path)
            yield from page.get("records", ())
            # Further pages are named from the root of the host.
            path = str(page.get("nextRecordsUrl") or "").removeprefix(f"/services/data/{VERSION}")

    def _send(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        if self.usage_percent >= ORG_PERCENT:
            text = f"{ORG_PERCENT}% of Salesforce’s requests of the last 24 hours are used by all."
            raise Throttled(f"{text} The run goes on as some are free again.", DAY_WAIT)
        is_new = self.session is None
        result = self._send_once(method, path, body)
        if result.status == 401 and not is_new:
            # Sessions end, and nobody says when.
            self.session = None
            result = self._send_once(method, path, body)
        if usage := _USAGE.search(result.headers.get("sforce-limit-info", "")):
            self.daily_limit = int(usage[2])
            self.usage_percent = 100 * int(usage[1]) / max(1, self.daily_limit)
        if result.is_delivered:
            return _content(result)
        raise _error(result)

    def _send_once(self, method: str, path: str, body: Any) -> Result:
        url, token = self.session = self.session or self._log_in()
        return self.request(method, f"{url}/services/data/{VERSION}{path}", body, token=token)

    def _log_in(self) -> tuple[str, str]:
        """The address of the API, and a new session."""
        base = settings.SALESFORCE_URL or f"https://{self.destination.host}"
        if not _is_salesforce(base):
            raise CredentialsRejected("The My Domain is none of Salesforce.")
        form = {
            "grant_type": "client_credentials",
            "client_id": self.destination.client_id,
            "client_secret": self.destination.key,
        }
        url = f"{base}/services/oauth2/token"
        result = self.request("POST", url, token="", form=urlencode(form))
        content = decode(result)
        if result.status in (400, 401):
            reason = cut(content.get("error_description") or content.get("error") or "")
            text = (
                f"Salesforce rejects the consumer key or its secret ({reason}). Enter them again."
            )
            raise CredentialsRejected(text)
        token, instance = content.get("access_token"), str(content.get("instance_url", ""))
        if not result.is_delivered or not token:
            raise VendorError(f"Salesforce answered {result.status} to the request for a session.")
        if not _is_salesforce(instance):
            raise VendorError("Salesforce names an address that is none of its own.")
        return instance.rstrip("/"), str(token)


def _is_salesforce(url: str) -> bool:
    if settings.SALESFORCE_URL:
        return url.rstrip("/") == settings.SALESFORCE_URL
    parts = urlsplit(url)
    is_plain = parts.scheme == "https" and parts.path in ("", "/") and not parts.query
    return is_plain and is_my_domain(parts.netloc)


def is_my_domain(host: str) -> bool:
    return _HOST.fullmatch(host) is not None


# --- Results and errors -----------------------------------------------------------------------


def _content(result: Result) -> dict[str, Any]:
    """The response's object. Those of batches are lists."""
    try:
        content = json.loads(result.response)
    except ValueError:
        content = None
    if isinstance(content, list):
        return {"results": content}
    if not isinstance(content, dict):
        raise VendorError("Salesforce answered with something else than JSON.")
    return content


def _first_error(row: dict[str, Any]) -> dict[str, Any]:
    return next(iter(row.get("errors") or ()), {})


def _code(row: dict[str, Any]) -> str:
    return str(_first_error(row).get("statusCode", ""))


def _is_locked(row: dict[str, Any]) -> bool:
    text = f"{_code(row)} {_first_error(row).get('message', '')}"
    return not row.get("success") and any(each in text for each in _LOCKED)


def _outcome(row: dict[str, Any]) -> Written:
    if row.get("success"):
        return Written(str(row["id"]), is_new=bool(row.get("created")))
    error = _first_error(row)
    text = cut(f"{_code(row)}: {error.get('message', 'Salesforce gave no reason.')}")
    return Written(error=text, is_gone=_code(row) in _GONE)


def _error(result: Result) -> VendorError:
    try:
        first = json.loads(result.response)[0]
        code, text = str(first.get("errorCode", "")), cut(first.get("message", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        code = text = ""
    if result.status == 401:
        return CredentialsRejected("Salesforce ends each session at once. Enter the key again.")
    if code == "REQUEST_LIMIT_EXCEEDED" or result.status == 429:
        wait = DAY_WAIT if "TotalRequests" in text else BUSY_WAIT
        return Throttled(f"Salesforce limits requests. {text}", result.retry_after or wait)
    if code in _NO_RIGHT or (code and result.status in (403, 404)):
        return NotAllowed(f"Salesforce does not allow it. {code}: {text}")
    if result.status == 400:
        return BatchRejected(f"{code}: {text}" if code else "Salesforce rejects the batch.")
    return VendorError(f"Salesforce answered {result.status}. {text}".strip())


# --- Values -----------------------------------------------------------------------------------


def _field(info: dict[str, Any]) -> Field:
    options = [each["value"] for each in info.get("picklistValues") or () if each.get("active")]
    is_nullable, type = bool(info.get("nillable", True)), _TYPES.get(info["type"], "other")
    has_default = info.get("defaultedOnCreate") or type == "boolean"
    return Field(
        info["name"],
        info.get("label") or info["name"],
        type,
        bool(info.get("externalId") and info.get("unique")),
        tuple(options[:100]),
        is_required=not is_nullable and not has_default,
        is_nullable=is_nullable,
        length=info.get("length") or None,
        scale=info.get("scale") if type == "number" else None,
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def _like(value: str) -> str:
    return _escaped(value).replace("%", "\\%").replace("_", "\\_")
