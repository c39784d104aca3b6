"""Keeps keys and tokens out of log lines.

This imports neither Django nor the service, because gunicorn's master process uses it.
"""

import logging
import re

# Keys, tokens, and invites, as core.credentials makes them. The first characters tell
# two apart.
_CREDENTIAL = re.compile(r"\b((?:edk|eds|edf|edi)_\w{5})[\w-]{10,}", re.ASCII)
# Whatever stands where SDKs put a key: a parameter of the URL, its path, or the header.
_PLACES = re.compile(
    r"(\bwriteKey=|/projects/|/analytics\.js/v1/|\bbasic\s+)[^\s&'\"/;,]+", re.ASCII | re.IGNORECASE
)


def redact(line: str) -> str:
    """The line without credentials."""
    return _PLACES.sub(r"\1…", _CREDENTIAL.sub(r"\1…", line))


class RedactingFormatter(logging.Formatter):
    """Formats as usual, without credentials."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))
