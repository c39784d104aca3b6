"""Salesforce as far as the service uses it, with the traps that it is known for."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.crm.server import Answer, Call, FakeCrm

VERSION = "v66.0"
_ROOT = f"/services/data/{VERSION}"
_CONDITION = re.compile(r"(\w+) IN \((.*)\)|(\w+) LIKE '%(.*)%'")
_TEXT = re.compile(r"'((?:\\.|[^'\\])*)'")
_PAGE = 2_000


class FakeSalesforce(FakeCrm):
    """``field_infos`` are the fields of accounts and contacts alike. The app's user may neither see
    nor write ``hidden_names``. A new record needs ``required_names``. ``locks`` are ids with how
    many times more they fail. ``key`` is the secret, and ``sessions`` are those that are still
    good. ``deleted_ids`` are of merged or deleted records."""

    def __init__(self) -> None:
        super().__init__()
        self.client_id = "planted-app"
        self.field_infos: dict[str, dict[str, Any]] = {}
        for name, type in (
            *(("Website", "url"), ("Name", "string"), ("Plan__c", "string"), ("Email", "email")),
            *(("EDS_Score__c", "double"), ("EDS_Active__c", "date"), ("EDS_Seen__c", "datetime")),
            *(("EDS_At_Risk__c", "boolean"), ("EDS_Trend__c", "picklist"), ("Cloud__c", "string")),
        ):
            self.add_field(name, type)
        options = [{"value": value, "active": True} for value in ("rising", "steady", "falling")]
        self.field_infos["EDS_Trend__c"]["picklistValues"] = options
        self.field_infos["EDS_Score__c"] |= {"precision": 18, "scale": 2}
        self.field_infos["Plan__c"]["length"] = 40
        self.field_infos["Name"]["nillable"] = False
        self.add_field("EDS_Id__c", "string", externalId=True, unique=True, length=255)
        self.add_field("CreatedDate", "datetime", updateable=False)
        self.hidden_names: set[str] = set()
        self.required_names = {"Name"}
        self.rejected_values: set[str] = set()
        self.duplicates: set[str] = set()
        self.locks: dict[str, int] = {}
        self.sessions: set[str] = set()
        self.deleted_ids: set[str] = set()
        self.logins = 0
        self.usage, self.limit = 18, 100_000
        self.instance_url = ""

    def add_field(self, name: str, type: str, **info: Any) -> None:
        usual = {"updateable": True, "createable": True, "nillable": type != "boolean"}
        label = name.removesuffix("__c").replace("_", " ")
        self.field_infos[name] = {"name": name, "label": label, "type": type, **usual, **info}

    def add(self, **values: Any) -> str:
        """A record that somebody made. Returns its id of 18 characters."""
        id = f"001{len(self.records) + len(self.deleted_ids):012d}AAA"
        self.records[id] = {name: value for name, value in values.items() if value is not None}
        return id

    def remove(self, id: str, into: str = "") -> None:
        """Delete the record, or merge it into another one."""
        values = self.records.pop(id)
        self.deleted_ids.add(id)
        if into:
            self.records[into] = {**values, **self.records[into]}

    # --- Requests -------------------------------------------------------------------------------

    def answer(self, call: Call, token: str) -> Answer:
        parts = urlsplit(call.path)
        if parts.path == "/services/oauth2/token":
            return self._log_in({name: each[0] for name, each in parse_qs(call.body).items()})
        if token not in self.sessions:
            return _failure(401, "INVALID_SESSION_ID", "Session expired or invalid")
        if self.usage >= self.limit:
            text = "TotalRequests Limit exceeded."
            return _failure(403, "REQUEST_LIMIT_EXCEEDED", text)
        self.usage += 1
        path = parts.path.removeprefix(_ROOT)
        if path.endswith("/describe"):
            fields = [
                each for name, each in self.field_infos.items() if name not in self.hidden_names
            ]
            answer = Answer(200, {"fields": fields})
        elif path == "/query":
            answer = self._query(parse_qs(parts.query)["q"][0], 0, len(call.path))
        elif path.startswith("/query/"):
            text, _, start = self._cursor.partition("-")
            answer = self._query(text, int(start), 0)
        elif call.method == "POST":
            answer = self._read(call.body)
        else:
            answer = self._write(path.removeprefix("/composite/sobjects"), call.body)
        return answer._replace(
            headers={"Sforce-Limit-Info": f"api-usage={self.usage}/{self.limit}"}
        )

    def _log_in(self, form: dict[str, str]) -> Answer:
        if form.get("grant_type") != "client_credentials":
            return Answer(400, {"error": "unsupported_grant_type"})
        if form.get("client_id") != self.client_id:
            return Answer(400, {"error": "invalid_client_id", "error_description": "no such app"})
        if form.get("client_secret") != self.key:
            return Answer(400, {"error": "invalid_client", "error_description": "invalid secret"})
        self.logins += 1
        session = f"planted-session-{self.logins}"
        self.sessions.add(session)
        address = self.instance_url or self.url
        return Answer(200, {"access_token": session, "instance_url": address})

    def _query(self, text: str, start: int, length: int) -> Answer:
        assert length < 16_000, "The address is too long."
        names, _, rest = text.removeprefix("SELECT ").partition(" FROM ")
        fields, condition = names.split(","), rest.partition(" WHERE ")[2]
        for name in {*fields, *re.findall(r"(\w+) (?:IN|LIKE)", condition)} - {"Id"}:
            if name not in self.field_infos or name in self.hidden_names:
                return _failure(400, "INVALID_FIELD", f"No such column '{name}' on entity")
        tests = [_test(each) for each in condition.split(" OR ")]
        own_name = condition.partition(" ")[0]
        hits = [
            {"Id": id, **{name: values.get(name) for name in fields if name != "Id"}}
            for id, values in self.records.items()
            if values.get(own_name) and any(test(values[own_name]) for test in tests)
        ]
        page: dict[str, Any] = {"totalSize": len(hits), "records": hits[start : start + _PAGE]}
        page["done"] = start + _PAGE >= len(hits)
        if not page["done"]:
            self._cursor = f"{text}-{start + _PAGE}"
            page["nextRecordsUrl"] = f"{_ROOT}/query/01g-{start + _PAGE}"
        return Answer(200, page)

    def _read(self, body: dict[str, Any]) -> Answer:
        if len(body["ids"]) > 2_000:
            return _failure(400, "EXCEEDED_MAX_SIZE_REQUEST", "record limit reached")
        for name in {*body["fields"]} - {"Id"}:
            if name not in self.field_infos or name in self.hidden_names:
                return _failure(400, "INVALID_FIELD", f"No such column '{name}' on entity")
        rows = [(id, self.records.get(id)) for id in body["ids"]]
        names = [name for name in body["fields"] if name != "Id"]
        results = [
            None if own is None else {"Id": id, **{name: own.get(name) for name in names}}
            for id, own in rows
        ]
        return Answer(200, results)

    def _write(self, path: str, body: dict[str, Any]) -> Answer:
        rows, id_field = body["records"], path.rpartition("/")[2]
        if len(rows) > 200:
            return _failure(400, "EXCEEDED_MAX_SIZE_REQUEST", "record limit reached")
        assert body["allOrNone"] is False
        if id_field and not self.field_infos.get(id_field, {}).get("externalId"):
            return _failure(404, "NOT_FOUND", "Provided external ID field does not exist")
        for row in rows:
            for name, value in row.items():
                if problem := self._unreadable(name, value):
                    return _failure(400, "JSON_PARSER_ERROR", problem)
        ids = [row[id_field] for row in rows] if id_field else [row["id"] for row in rows]
        return Answer(200, [self._result(row, id_field, ids) for row in rows])

    def _unreadable(self, name: str, value: Any) -> str:
        """Why Salesforce cannot read the batch at all."""
        kinds: dict[str, Any] = {"double": (int, float), "boolean": bool}
        type = self.field_infos.get(name, {}).get("type")
        if type is None or value is None:
            return ""
        is_right = isinstance(value, kinds.get(type, str))
        is_right &= type == "boolean" or not isinstance(value, bool)
        is_right &= type != "datetime" or "T" in str(value)
        return "" if is_right else f"Cannot deserialize instance of {type} from {value!r}"

    def _result(self, row: dict[str, Any], id_field: str, ids: list[Any]) -> dict[str, Any]:
        values = {name: value for name, value in row.items() if name not in ("attributes", "id")}
        id = self._find(id_field, row[id_field]) if id_field else row["id"]
        if ids.count(row[id_field] if id_field else id) > 1:
            return _refused("DUPLICATE_VALUE", "Duplicate id specified in the batch")
        if not id_field and id not in self.records:
            return _refused("ENTITY_IS_DELETED", "entity is deleted")
        if problem := self._problem(values, id):
            return _refused(*problem)
        if id:
            self.store(id, values)
            return {"id": id, "success": True, "errors": [], "created": False}
        id = self.add(**values)
        self.created.append(id)
        return {"id": id, "success": True, "errors": [], "created": True}

    def _problem(self, values: dict[str, Any], id: str) -> tuple[str, str] | None:
        for name, value in values.items():
            if name not in self.field_infos:
                return "INVALID_FIELD", f"No such column '{name}' on sobject"
            if name in self.hidden_names:
                return "INVALID_FIELD_FOR_INSERT_UPDATE", f"Unable to create/update: {name}"
            info = self.field_infos[name]
            if len(str(value)) > (info.get("length") or 255):
                return "STRING_TOO_LONG", f"{name}: data value too large"
            if value is None and not info["nillable"]:
                return "INVALID_TYPE_ON_FIELD_IN_RECORD", f"{name} cannot be null"
            if value in self.rejected_values:
                return "FIELD_CUSTOM_VALIDATION_EXCEPTION", f"{value} breaks a rule."
        if self.locks.get(id, 0) > 0:
            self.locks[id] -= 1
            return "UNABLE_TO_LOCK_ROW", "unable to obtain exclusive access to this record"
        if not id and (missing := self.required_names - values.keys()):
            return "REQUIRED_FIELD_MISSING", f"Required fields are missing: {sorted(missing)}"
        if not id and set(values.values()) & self.duplicates:
            return "DUPLICATES_DETECTED", "You're creating a duplicate record."
        return None

    def _find(self, name: str, value: str) -> str:
        own = value.lower()
        hits = [id for id, each in self.records.items() if str(each.get(name, "")).lower() == own]
        return hits[0] if hits else ""

    def store(self, id: str, values: dict[str, Any]) -> None:
        """Text is stored without spaces at its ends, numbers as the field has places."""
        own = {
            name: each.strip() if isinstance(each, str) else each for name, each in values.items()
        }
        super().store(id, own)


def _test(condition: str) -> Callable[[Any], bool]:
    match = _CONDITION.fullmatch(condition)
    assert match, condition
    if match[1]:
        values = {_plain(each).lower() for each in _TEXT.findall(match[2])}
        return lambda own: str(own).lower() in values
    part = _plain(match[4]).lower()
    return lambda own: part in str(own).lower()


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _refused(code: str, message: str) -> dict[str, Any]:
    error = {"statusCode": code, "message": message, "fields": []}
    return {"success": False, "errors": [error]}


def _failure(status: int, code: str, message: str) -> Answer:
    return Answer(status, [{"message": message, "errorCode": code}])
