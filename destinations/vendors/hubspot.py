"""HubSpot: companies and contacts, by its dated API.

A batch that names an unknown property writes nothing. A merged or deleted record is absent from
the results, so each input must be among the results or the errors.
"""

import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from django.conf import settings

from core.outbound.requests import Result
from destinations.vendors.base import (
    BatchRejected,
    Client,
    CredentialsRejected,
    Field,
    FieldType,
    NotAllowed,
    Throttled,
    Unconfirmed,
    VendorError,
    Write,
    Written,
    as_text,
    cut,
    decode,
)

# Versions come each March and September, and are supported for 18 months.
VERSION: Final = "2026-09"
# Searches per second are few, and their responses do not say how many are left.
SEARCH_PAUSE = 0.25
# A search may have five groups of filters.
_GROUPS = 5
_PAGE = 200
_DAILY_HEADER = "x-hubspot-ratelimit-daily"
_WAITS: dict[str, float | None] = {"DAILY": None, "SECONDLY": 1.0, "TEN_SECONDLY_ROLLING": 10.0}
_PROPERTY = re.compile(r'"name"\s*:\s*"([^"]{1,100})"')
# Fields with further values of the same kind, separated by semicolons.
_MORE = {"domain": "hs_additional_domains", "email": "hs_additional_emails"}
_TYPES: dict[str, FieldType] = {
    **{"string": "text", "number": "number", "bool": "boolean", "enumeration": "choice"},
    **{"date": "day", "datetime": "time", "phone_number": "text"},
}


class HubSpot(Client):
    usual_limit = 250_000
    batch = 100
    domain_fields = frozenset({"domain"})

    @property
    def _objects(self) -> str:
        return "companies" if self.is_of_accounts else "contacts"

    def fields(self) -> list[Field]:
        properties = self._send("GET", f"/crm/properties/{VERSION}/{self._objects}")
        return [
            _field(each)
            for each in properties.get("results", ())
            if not each.get("calculated")
            and not (each.get("modificationMetadata") or {}).get("readOnlyValue")
        ]

    def find(self, field: Field, values: Sequence[str]) -> dict[str, set[str]]:
        ids_of: dict[str, set[str]] = {value.lower(): set() for value in values}
        if field.is_unique or field.name == "email":
            for record in self._read(values, [field.name], field.name):
                _add(ids_of, record, field.name)
            return ids_of
        self._search(ids_of, field.name, [[_filter(field.name, "IN", values=list(ids_of))]])
        if more := _MORE.get(field.name):
            rest = [value for value, ids in ids_of.items() if not ids]
            for start in range(0, len(rest), _GROUPS):
                groups = [
                    [_filter(more, "CONTAINS_TOKEN", value=value)]
                    for value in rest[start : start + _GROUPS]
                ]
                self._search(ids_of, field.name, groups)
        return ids_of

    def read(self, ids: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {each["id"]: each["properties"] for each in self._read(ids, fields)}

    def update(self, writes: Sequence[Write]) -> list[Written]:
        inputs = [
            {"id": write.remote_id, "properties": _properties(write), **_trace(number)}
            for number, write in enumerate(writes)
        ]
        body = self._write("update", inputs)
        results = {each["id"] for each in body.get("results", ())}
        errors = _errors(body, [write.remote_id for write in writes])
        return [
            errors.get(number)
            or (Written(write.remote_id) if write.remote_id in results else Written(is_gone=True))
            for number, write in enumerate(writes)
        ]

    def upsert(self, id_field: str, writes: Sequence[Write]) -> list[Written]:
        inputs = [
            {
                "id": write.values[id_field],
                "idProperty": id_field,
                "properties": _properties(write),
                **_trace(number),
            }
            for number, write in enumerate(writes)
        ]
        body = self._write("upsert", inputs)
        ids = [str(write.values[id_field]) for write in writes]
        errors = _errors(body, ids)
        results = {
            (each.get("properties") or {}).get(id_field): each for each in body.get("results", ())
        }
        return [errors.get(number) or _upserted(results.get(id)) for number, id in enumerate(ids)]

    # --- Requests -------------------------------------------------------------------------------

    def _write(self, verb: str, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        body = self._send(
            "POST", f"/crm/objects/{VERSION}/{self._objects}/batch/{verb}", {"inputs": inputs}
        )
        if not body.get("results") and not body.get("errors"):
            raise Unconfirmed("HubSpot confirmed nothing of a batch.")
        return body

    def _read(
        self, ids: Sequence[str], fields: Sequence[str], id_property: str = ""
    ) -> list[dict[str, Any]]:
        fields = [*fields, *(_MORE[name] for name in fields if name in _MORE)]
        body: dict[str, Any] = {
            "properties": fields,
            "propertiesWithHistory": [],
            "inputs": [{"id": id} for id in ids],
        }
        if id_property:
            body["idProperty"] = id_property
        path = f"/crm/objects/{VERSION}/{self._objects}/batch/read"
        content = self._send("POST", path, body)
        results: list[dict[str, Any]] = content.get("results", [])
        # Of a value that no record has, it says so. Of an id that was merged, it says nothing.
        if id_property and not results and not content.get("errors"):
            raise VendorError("HubSpot said nothing about a batch.")
        return results

    def _search(self, ids_of: dict[str, set[str]], name: str, groups: list[Any]) -> None:
        after = "0"
        while after:
            body = {
                "filterGroups": [{"filters": filters} for filters in groups],
                "properties": [name, *([_MORE[name]] if name in _MORE else [])],
                "limit": _PAGE,
                "after": after,
                "sorts": [],
            }
            time.sleep(SEARCH_PAUSE)
            page = self._send("POST", f"/crm/objects/{VERSION}/{self._objects}/search", body)
            for record in page.get("results", ()):
                _add(ids_of, record, name)
            after = ((page.get("paging") or {}).get("next") or {}).get("after", "")

    def _send(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        url, token = f"{settings.HUBSPOT_API_URL}{path}", self.destination.key
        result = self.request(method, url, body, token=token)
        limit = result.headers.get(_DAILY_HEADER, "")
        if limit.isdecimal():
            self.daily_limit = int(limit)
        content = decode(result)
        if result.is_delivered:
            if not content:
                raise VendorError("HubSpot answered with something else than JSON.")
            return content
        if result.status == 404 and content.get("category") == "OBJECT_NOT_FOUND":
            return {"errors": content.get("errors") or [content]}
        raise _error(result, content)


# --- Errors ---------------------------------------------------------------------------------


def _error(result: Result, content: dict[str, Any]) -> VendorError:
    text = cut(content.get("message", ""))
    match result.status:
        case 401:
            return CredentialsRejected("HubSpot rejects the key. Enter a new one.")
        case 403:
            return NotAllowed(f"The key lacks a scope. HubSpot: {text}")
        case 429:
            policy = str(content.get("policyName", ""))
            return Throttled(f"HubSpot limits requests. {text}", _WAITS.get(policy, 10.0))
        case 423 | 477:
            return Throttled(f"HubSpot is busy. {text}", result.retry_after or 2.0)
        case 400 if "PROPERTY_DOESNT_EXIST" in text or "READ_ONLY" in text:
            name = _PROPERTY.search(text.partition("PROPERTY_DOESNT_EXIST")[2] or text)
            which = f"the property {name[1]}" if name else "a mapped property"
            return NotAllowed(f"HubSpot does not take {which} any more. Edit the mapping.")
        case 400 | 409:
            return BatchRejected(text or "HubSpot rejects the batch.")
    return VendorError(f"HubSpot answered {result.status}. {text}".strip())


def _upserted(record: dict[str, Any] | None) -> Written:
    if record is None:
        return Written(error="HubSpot said nothing about this record.")
    return Written(record["id"], is_new=bool(record.get("new")))


def _errors(body: dict[str, Any], ids: Sequence[str]) -> dict[int, Written]:
    """The rows that failed, by their places in the batch."""
    places = {id: number for number, id in enumerate(ids)}
    failed: dict[int, Written] = {}
    for error in body.get("errors", ()):
        context = error.get("context") or {}
        is_gone = error.get("category") == "OBJECT_NOT_FOUND"
        failure = Written(error=cut(error.get("message", "")), is_gone=is_gone)
        traces = [int(each) for each in context.get("objectWriteTraceId", ())]
        for number in {*traces, *(places[id] for id in context.get("ids", ()) if id in places)}:
            failed[number] = failure
    return failed


# --- Values ---------------------------------------------------------------------------------


def _field(info: dict[str, Any]) -> Field:
    options = tuple(each["value"] for each in info.get("options") or ())
    return Field(
        info["name"],
        info.get("label") or info["name"],
        _TYPES.get(info.get("type", ""), "other"),
        bool(info.get("hasUniqueValue")),
        options[:100],
    )


def _filter(name: str, operator: str, **values: Any) -> dict[str, Any]:
    return {"propertyName": name, "operator": operator, **values}


def _trace(number: int) -> dict[str, str]:
    return {"objectWriteTraceId": str(number)}


def _add(ids_of: dict[str, set[str]], record: dict[str, Any], name: str) -> None:
    """Note the record under each value of the field that was looked for, if it is exactly one."""
    properties = record.get("properties") or {}
    for value in _values(properties, name):
        if value in ids_of:
            ids_of[value].add(record["id"])


def _values(properties: dict[str, Any], name: str) -> Iterable[str]:
    own = [properties.get(name) or ""]
    own += (properties.get(_MORE.get(name, "")) or "").split(";")
    return {value.strip().lower() for value in own}


def _properties(write: Write) -> dict[str, str]:
    """Each value is text, and empty text clears."""
    return {name: "" if each is None else as_text(each) for name, each in write.values.items()}
