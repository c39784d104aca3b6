"""HubSpot as far as the service uses it, with the traps that it is known for."""

import json
from typing import Any

from harness.crm.server import Answer, Call, FakeCrm

VERSION = "2026-09"
_MORE = {"domain": "hs_additional_domains", "email": "hs_additional_emails"}


class FakeHubSpot(FakeCrm):
    """``properties`` are those of companies and contacts alike. ``bad_values`` are refused as a
    batch (INVALID_EMAIL), and ``rejected`` values row by row (207). A batch that creates a record
    without one of ``required_names`` is refused. ``unindexed`` records are not found by a search
    yet. ``merged`` leads from an id that is gone to the one that has it now."""

    def __init__(self) -> None:
        super().__init__()
        self.properties: dict[str, dict[str, Any]] = {}
        for name, type in (
            *(("domain", "string"), ("name", "string"), ("plan", "string"), ("email", "string")),
            *(("eds_score", "number"), ("eds_trend", "enumeration"), ("eds_active", "date")),
            *(("eds_at_risk", "bool"), ("cloud_id", "string"), ("eds_link", "string")),
            ("eds_insights", "string"),
        ):
            self.add_property(name, type)
        self.properties["eds_trend"]["options"] = [
            {"value": value} for value in ("rising", "steady", "falling")
        ]
        self.add_property("eds_id", "string", hasUniqueValue=True)
        self.add_property("createdate", "datetime", modificationMetadata={"readOnlyValue": True})
        self.bad_values: set[str] = set()
        self.rejected: set[str] = set()
        self.required_names: set[str] = set()
        self.unindexed: set[str] = set()
        self.merged: dict[str, str] = {}
        self.daily_limit = 250_000
        self.is_scope_missing = False

    def add_property(self, name: str, type: str, **info: Any) -> None:
        label = name.replace("_", " ").capitalize()
        self.properties[name] = {"name": name, "label": label, "type": type, **info}

    def add(self, **values: Any) -> str:
        """A record that somebody made. Returns its id."""
        id = str(500 + len(self.records) + len(self.merged))
        self.records[id] = {name: str(value) for name, value in values.items()}
        return id

    def merge(self, id: str, into: str) -> None:
        old = self.records.pop(id)
        self.merged[id] = into
        self.records[into] = {**old, **self.records[into]}

    # --- Requests -------------------------------------------------------------------------------

    def answer(self, call: Call, token: str) -> Answer:
        if token != self.key:
            return Answer(401, {"status": "error", "category": "INVALID_AUTHENTICATION"})
        if self.is_scope_missing:
            body = {"status": "error", "category": "MISSING_SCOPES", "message": "crm.objects"}
            return Answer(403, body)
        headers = {"X-HubSpot-RateLimit-Daily": str(self.daily_limit)}
        name, _, rest = call.path.removeprefix("/crm/").partition(f"/{VERSION}/")
        if name == "properties":
            return Answer(200, {"results": list(self.properties.values())}, headers)
        action = rest.partition("/")[2]
        if action == "search":
            # Without headers of limits.
            return self._search(call.body)
        inputs = call.body.get("inputs")
        if not inputs:
            return Answer(200, {"status": "COMPLETE", "results": []}, headers)
        if len(inputs) > 100:
            return Answer(400, _error("VALIDATION_ERROR", "The maximum batch size is 100."))
        ids = [each["id"] for each in inputs]
        if len(set(ids)) < len(ids):
            return Answer(400, _error("VALIDATION_ERROR", "Duplicate IDs found in batch input"))
        handlers = {"batch/read": self._read, "batch/update": self._update}
        status, body = handlers.get(action, self._upsert)(call.body)
        return Answer(status, body, headers)

    def _search(self, body: dict[str, Any]) -> Answer:
        groups = body["filterGroups"]
        if len(groups) > 5 or any(len(group["filters"]) > 6 for group in groups):
            return Answer(400, _error("VALIDATION_ERROR", "Too many filters."))
        hits = [
            id
            for id, values in self.records.items()
            if id not in self.unindexed
            and any(all(_matches(values, each) for each in group["filters"]) for group in groups)
        ]
        start = int(body["after"])
        page = hits[start : start + body["limit"]]
        content: dict[str, Any] = {
            "total": len(hits),
            "results": [self._as_record(id, body["properties"]) for id in page],
        }
        if start + len(page) < len(hits):
            content["paging"] = {"next": {"after": str(start + len(page))}}
        return Answer(200, content)

    def _read(self, body: dict[str, Any]) -> tuple[int, Any]:
        by = body.get("idProperty", "")
        results, missing = [], []
        for each in body["inputs"]:
            id = self._find(by, each["id"]) if by else each["id"]
            if id in self.records:
                results.append(self._as_record(id, body["properties"]))
            else:
                missing.append(each["id"])
        return _results(results, _not_found(missing))

    def _find(self, name: str, value: str) -> str:
        if name != "email" and not self.properties[name].get("hasUniqueValue"):
            return ""
        for id, values in self.records.items():
            more = values.get(_MORE.get(name, ""), "").split(";")
            if value.lower() in {values.get(name, "").lower(), *more} - {""}:
                return id
        return ""

    def _update(self, body: dict[str, Any]) -> tuple[int, Any]:
        if any("idProperty" in each for each in body["inputs"]):
            return 400, _error("VALIDATION_ERROR", "Unable to perform update by non-unique")
        return self._write(body["inputs"], creates=False)

    def _upsert(self, body: dict[str, Any]) -> tuple[int, Any]:
        names = {each["idProperty"] for each in body["inputs"]}
        if not all(self.properties[name].get("hasUniqueValue") for name in names):
            return 400, _error("VALIDATION_ERROR", "Unable to perform upsert by non-unique")
        return self._write(body["inputs"], creates=True)

    def _write(self, inputs: list[dict[str, Any]], *, creates: bool) -> tuple[int, Any]:
        problem = self._problem(inputs) or (self._missing(inputs) if creates else "")
        if problem:
            return 400, _error("VALIDATION_ERROR", problem)
        results, errors, missing = [], [], []
        for each in inputs:
            values = each["properties"]
            id = self._find(each["idProperty"], each["id"]) if creates else each["id"]
            if set(values.values()) & self.rejected:
                error = _error("VALIDATION_ERROR", f"{values} breaks a rule of the account.")
                errors.append({**error, "context": {"objectWriteTraceId": [_trace(each)]}})
            elif id in self.records:
                self.store(id, values)
                results.append({"id": id, "properties": self.records[id], "new": False})
            elif creates:
                id = self.add(**values)
                self.created.append(id)
                results.append({"id": id, "properties": self.records[id], "new": True})
            elif each["id"] not in self.merged:
                missing.append(each["id"])
        return _results(results, [*errors, *_not_found(missing)])

    def _problem(self, inputs: list[dict[str, Any]]) -> str:
        for each in inputs:
            for name, value in each["properties"].items():
                if name not in self.properties:
                    return _invalid("PROPERTY_DOESNT_EXIST", name)
                if value in self.bad_values:
                    return _invalid("INVALID_EMAIL", name)
                if not isinstance(value, str):
                    return _invalid("NOT_A_STRING", name)
                options = self.properties[name].get("options")
                if options and value and value not in {each["value"] for each in options}:
                    return _invalid("INVALID_OPTION", name)
        return ""

    def _missing(self, inputs: list[dict[str, Any]]) -> str:
        """What is wrong with records that are to be created."""
        for each in inputs:
            names = self.required_names - each["properties"].keys()
            if names and not self._find(each["idProperty"], each["id"]):
                return f"A required property is missing: {sorted(names)}"
        return ""

    def _as_record(self, id: str, names: list[str]) -> dict[str, Any]:
        values = self.records[id]
        return {"id": id, "properties": {name: values.get(name) for name in names}}


def _matches(values: dict[str, Any], each: dict[str, Any]) -> bool:
    own = str(values.get(each["propertyName"], "")).lower()
    if each["operator"] == "IN":
        assert len(each["values"]) <= 100
        assert each["values"] == [value.lower() for value in each["values"]]
        return own in each["values"]
    # As a search does: by a part of the words.
    return each["value"] in own


def _results(results: list[Any], errors: list[Any]) -> tuple[int, Any]:
    body: dict[str, Any] = {"status": "COMPLETE", "results": results}
    if not errors:
        return 200, body
    if not results and all(each["category"] == "OBJECT_NOT_FOUND" for each in errors):
        return 404, errors[0]
    return 207, {**body, "numErrors": len(errors), "errors": errors}


def _not_found(ids: list[str]) -> list[Any]:
    if not ids:
        return []
    return [{**_error("OBJECT_NOT_FOUND", "Could not get some objects."), "context": {"ids": ids}}]


def _error(category: str, message: str) -> dict[str, Any]:
    return {"status": "error", "category": category, "message": message}


def _invalid(error: str, name: str) -> str:
    details = [{"isValid": False, "message": "It is wrong.", "error": error, "name": name}]
    return f"Property values were not valid: {json.dumps(details)}"


def _trace(each: dict[str, Any]) -> str:
    return str(each.get("objectWriteTraceId", ""))
