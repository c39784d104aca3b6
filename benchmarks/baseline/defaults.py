"""The baseline as startproject and Celery set it up: nothing tuned."""

from typing import Any

from benchmarks.baseline import settings
from benchmarks.baseline.settings import *  # noqa: F403  # every other setting is the same

# startproject's, less the sessions and messages that need tables of their own.
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
# Django's default: a connection for each request.
DATABASES: dict[str, dict[str, Any]] = {  # type: ignore[no-redef]  # Django reads this one
    "default": {**settings.DATABASES["default"], "CONN_MAX_AGE": 0}
}
