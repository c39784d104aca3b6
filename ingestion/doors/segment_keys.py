"""The key of a request in Segment's format."""

import re
from urllib.parse import parse_qsl

from ingestion.doors.headers import Headers, key_from_basic_auth, replace_nul
from ingestion.errors import IngestionError, invalid_field

# "Basic" and credentials as in RFC 7235. Both base64 and our raw keys match.
_BASIC = re.compile(r"basic +[a-z0-9._~+/-]+=* *", re.ASCII | re.IGNORECASE)
# The parameter in which RudderStack's beacons send the key.
_PARAMETER = "writeKey"
_MAX_PARAMETERS = 20


def sdk_key(headers: Headers, write_key: object) -> str:
    """The key of the header, of the body, or of the URL: beacons cannot set headers."""
    if key := key_from_basic_auth(headers):
        return key
    if isinstance(write_key, str) and write_key:
        return replace_nul(write_key)
    query = headers.get("QUERY_STRING")
    return replace_nul(_from_query(query)) if query else ""


def webhook_key(headers: Headers, write_key: object) -> str:
    """The key. Raises IngestionError if there is none: it helps people to set up a pipeline."""
    authorization = headers.get("HTTP_AUTHORIZATION")
    key = sdk_key(headers, write_key)
    if authorization and not (_BASIC.fullmatch(authorization) and key_from_basic_auth(headers)):
        message = "Authorization must be Basic, followed by an ingestion key or its base64."
        raise invalid_field("Authorization", message)
    if not key:
        message = "The Authorization header is missing. Send Basic, followed by an ingestion key."
        raise IngestionError(400, "missing_field", message, "Authorization")
    return key


def _from_query(query: str) -> str:
    try:
        return dict(parse_qsl(query, max_num_fields=_MAX_PARAMETERS)).get(_PARAMETER, "")
    except ValueError:
        return ""
