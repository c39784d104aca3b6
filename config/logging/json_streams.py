"""Makes each line that a process writes a JSON object, also lines that do not come from a logger.

It works from a process's first import on, before there are settings: their errors are lines, too.
So, unlike other settings, EDS_LOG_FORMAT is also read here. A terminal is left as it is, because a
person reads it.
"""

import io
import os
import sys
import threading
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

# The start of a line that a logger has formatted.
FORMATTED = '{"time": '

_is_installed = False


def is_wanted() -> bool:
    return os.environ.get("EDS_LOG_FORMAT", "").strip() == "json"


def install(*, with_output: bool = True) -> None:
    """Wrap the error stream, and with *with_output* also the output stream, if JSON is wanted.

    The first call decides: a command that imports Celery keeps its own output.
    """
    global _is_installed
    if _is_installed or not is_wanted():
        return
    _is_installed = True
    sys.excepthook = _log_exception
    threading.excepthook = _log_thread_exception
    _wrap("stderr")
    if with_output:
        _wrap("stdout")


def _wrap(name: str) -> None:
    stream = getattr(sys, name)
    if stream is None or isinstance(stream, JsonStream) or stream.isatty():
        return
    stream.flush()
    wrapped = JsonStream(stream.fileno())
    # Celery writes to the original streams, too.
    setattr(sys, name, wrapped)
    setattr(sys, f"__{name}__", wrapped)


class JsonStream(io.TextIOBase):
    """A stream that writes each line as a JSON object with its time and level."""

    encoding = "utf-8"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = ""

    def write(self, text: str) -> int:
        # Most lines come whole from a logger.
        if not self._rest and text.startswith(FORMATTED) and text.endswith("}\n"):
            self._put(text)
            return len(text)
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if last_part := line.split("\r")[-1].rstrip():
                self._put(
                    last_part + "\n" if last_part.startswith(FORMATTED) else as_object(last_part)
                )
        return len(text)

    def _put(self, line: str) -> None:
        # One call, so that the lines of several processes and of a signal handler do not mix.
        # The reader may be gone.
        with suppress(OSError):
            os.write(self._descriptor, line.encode("utf-8", "replace"))

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


def as_object(line: str, level: str = "", **fields: Any) -> str:
    """The line as a JSON object, without credentials."""
    from config.logging.json_lines import json_line
    from config.logging.redaction import redact

    is_error = line.lower().startswith("error") or ": error:" in line
    level = level or ("error" if is_error else "info")
    return redact(json_line(datetime.now(UTC), level, message=line, **fields)) + "\n"


def _log_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    lines = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(as_object(f"Ended by {kind.__name__}", "error", traceback=lines))


def _log_thread_exception(arguments: Any) -> None:
    if arguments.exc_type is not SystemExit:
        _log_exception(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
