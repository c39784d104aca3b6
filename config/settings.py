"""All settings of the service. Only this module reads the environment, and
``config.logging.json_streams`` the format of lines.

The documentation has a table of the variables, and a test compares the two.
"""

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from config import environment, periodic_tasks, sign_in
from config.database import broker, keepalive
from config.local.postgres import EmbeddedPostgres
from config.logging import settings
from config.server import memory
from config.web import static_files
from core.version import VERSION

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(environment.text("EDS_DATA_DIR", str(BASE_DIR / ".data"))).expanduser().resolve()

# How requests to other servers name us.
USER_AGENT = f"engagement-data-service/{VERSION}"

# --- The database -----------------------------------------------------------------------------

DATABASE_URL = environment.text("DATABASE_URL")
# Without DATABASE_URL the service runs its own PostgreSQL in the data folder.
EMBEDDED_POSTGRES = None if DATABASE_URL else EmbeddedPostgres(DATA_DIR / "postgres")


def _connected(address: dict[str, Any]) -> dict[str, Any]:
    """Return the database's settings: its address and the options of all our connections."""
    return {
        **address,
        "ENGINE": "django.db.backends.postgresql",
        # Opening a connection costs several milliseconds, so each thread keeps its own.
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            # Seconds. A slow network needs some round trips of a third of a second.
            "connect_timeout": 3,
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
# Only the read API uses the replica.
if REPLICA_URL := environment.text("EDS_REPLICA_URL"):
    DATABASES["replica"] = _connected(environment.database("EDS_REPLICA_URL", REPLICA_URL))
    DATABASE_ROUTERS = ["core.database.routing.ReplicaRouter"]
# Each web process borrows a connection per request from a pool of this size (config/wsgi.py).
WEB_DATABASE_POOL = {
    "min_size": 1,
    "max_size": 10,
    "max_idle": 300,
    "timeout": 10,
    # By itself the pool doubles its delay with each attempt, up to minutes, and requests would be
    # refused for that long after the database is back. A waiting request starts a new attempt, and
    # learns after that many seconds that the database is away (config/database/pool.py).
    "reconnect_timeout": 2,
}
# While the replica is down, readers learn it soon, and monitors within the time of a scrape.
WEB_REPLICA_POOL = {**WEB_DATABASE_POOL, "timeout": 3}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Characters. With a key that can be guessed, anybody can make a session.
MIN_SECRET_KEY = 32

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
environment.require_length(
    "EDS_SECRET_KEY",
    SECRET_KEY,
    MIN_SECRET_KEY,
    "`openssl rand -base64 48` prints one. With a new one, people sign in again; what is stored "
    "is encrypted with EDS_ENCRYPTION_KEYS and stays readable.",
)
# The encryption keys are not derived from SECRET_KEY, so each can be rotated without the other.
ENCRYPTION_KEYS = environment.fernet_keys("EDS_ENCRYPTION_KEYS", _encryption_keys)

# --- HTTP -------------------------------------------------------------------------------------

DEBUG = environment.flag("EDS_DEBUG")
ALLOWED_HOSTS = environment.comma_separated("EDS_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = environment.comma_separated("EDS_TRUSTED_ORIGINS")
# Processes that accept data, and by default as many for everything else.
WEB_WORKERS = environment.integer("EDS_WEB_WORKERS", os.cpu_count() or 1, minimum=1)
PAGE_WORKERS = environment.integer("EDS_PAGE_WORKERS", WEB_WORKERS, minimum=1)
# MiB that a web or worker process may take. It is replaced before it does.
WORKER_MEMORY_MB = environment.integer("EDS_WORKER_MEMORY_MB", 300, minimum=200)

# HTTPS ends at a proxy that sets X-Forwarded-Proto.
HTTPS = environment.flag("EDS_HTTPS")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_SSL_REDIRECT = HTTPS
# Load balancers and monitors reach each machine directly.
SECURE_REDIRECT_EXEMPT = [
    *("^healthz$", "^readyz$", "^metrics$"),
    # A program that follows a redirect has sent its key in the clear before, and goes on doing so.
    *(r"^v\d+/", "^segment", "^beacon/", "^sourceConfig", "^analytics", "^mcp$"),
]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
# Browsers take months to remove a host from their preload list, so an operator decides.
SECURE_HSTS_PRELOAD = HTTPS and environment.flag("EDS_HSTS_PRELOAD")
SILENCED_SYSTEM_CHECKS = ["security.W021"]
CSP_REPORT_URI = environment.report_url("EDS_CSP_REPORT_URI")
# The key of a request's META with the client's address, which the proxy appends to the list.
CLIENT_ADDRESS_KEY = "HTTP_X_FORWARDED_FOR" if HTTPS else "REMOTE_ADDR"
SESSION_COOKIE_SECURE = HTTPS
# A login lasts a working day.
SESSION_COOKIE_AGE = 12 * 60 * 60
CSRF_COOKIE_SECURE = HTTPS
CSRF_COOKIE_HTTPONLY = True
# Browsers accept cookies with this prefix only from this host, and only over HTTPS.
SESSION_COOKIE_NAME = "__Host-eds-session" if HTTPS else "eds-session"
CSRF_COOKIE_NAME = "__Host-eds-csrf" if HTTPS else "csrftoken"
MESSAGE_STORAGE = "config.web.message_storage.MessageStorage"
X_FRAME_OPTIONS = "DENY"

# --- Signing in -------------------------------------------------------------------------------

OIDC = sign_in.oidc(
    issuer=environment.text("EDS_OIDC_ISSUER"),
    client_id=environment.text("EDS_OIDC_CLIENT_ID"),
    client_secret=environment.text("EDS_OIDC_CLIENT_SECRET"),
    name=environment.text("EDS_OIDC_NAME", "Single sign-on"),
    scopes=environment.text("EDS_OIDC_SCOPES", "openid email profile"),
    groups_claim=environment.text("EDS_OIDC_GROUPS_CLAIM", "groups"),
    trusts_emails=environment.flag("EDS_OIDC_TRUST_EMAILS"),
)
# What these did is gone. They have no effect, and the web role and `doctor` say so.
RETIRED_SETTINGS = environment.which_are_set(
    "EDS_PROXY_LOGIN_HEADER", "EDS_PROXY_GROUPS_HEADER", "EDS_PROXY_LOGIN_NETWORKS"
)
SSO_CREATES_LOGINS = environment.flag("EDS_SSO_CREATE_LOGINS")
# The roles of each group of the provider.
SSO_GROUPS = sign_in.role_mapping("EDS_SSO_GROUPS", environment.text("EDS_SSO_GROUPS"))
LOCAL_PASSWORDS = environment.flag("EDS_LOCAL_PASSWORDS", True)
# The login that may use its password where others may not.
BREAK_GLASS_LOGIN = environment.text("EDS_BREAK_GLASS_LOGIN")
# 0 for none.
SESSION_IDLE_MINUTES = environment.integer("EDS_SESSION_IDLE_MINUTES", 0)
sign_in.check_ways_in(LOCAL_PASSWORDS, BREAK_GLASS_LOGIN, OIDC)
# How far the clock of a person's phone may be off, or how long after its end a code still counts.
CODE_TOLERANCE_SECONDS = environment.integer("EDS_CODE_TOLERANCE_SECONDS", 30)
SECOND_FACTOR = environment.choice("EDS_SECOND_FACTOR", "optional", ("optional", "managers", "all"))

ROOT_URLCONF = "config.urls"
# Some processes load none (config/server/without_pages.py).
HAS_PAGES = True
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
    "core",
    "engagement",
    "access",
    "ingestion",
    "readapi",
    "marketplace",
    "notifications",
    "exports",
    "destinations",
    "outcomes",
    "trends",
    "console",
    # Two commands of invented data. The service runs without them.
    *(["harness"] if find_spec("harness") else []),
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    # API requests go straight to their views. The rest is for pages.
    "config.web.middleware.ApiFastPathMiddleware",
    "config.web.compression.StaticFilesMiddleware",
    "config.web.compression.PageCompressionMiddleware",
    "config.web.middleware.SecurityHeadersMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "config.web.sign_in_middleware.SignInMiddleware",
    "config.web.middleware.TimeZoneMiddleware",
    # The last, so that the session is saved outside its time limit.
    "config.web.middleware.PageTimeoutMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "config" / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "config.web.template_loaders.FolderLoader",
                        "config.web.template_loaders.AppLoader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

STATIC_URL = f"static/{static_files.release_digest(BASE_DIR)}/"
STATICFILES_DIRS = [("guides", BASE_DIR / "docs" / "images")]
# WhiteNoise serves the packages' own files, so a first start needs no collectstatic.
WHITENOISE_USE_FINDERS = True
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "config.web.bundles.BundleFinder",
]
# Browsers keep all of them: the URL changes with the release.
WHITENOISE_IMMUTABLE_FILE_TEST = r"."

# The first one hashes. The others are Django's, for imported hashes.
PASSWORD_HASHERS = [
    "access.logins.hashing.Pbkdf2Hasher",
    "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher",
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.BCryptSHA256PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]

AUTH_PASSWORD_VALIDATORS = sign_in.password_validators(
    environment.file_path("EDS_LEAKED_PASSWORDS")
)
# The operator's words that are rejected as passwords, beside those of products and hosts.
PASSWORD_WORDS = environment.comma_separated("EDS_PASSWORD_WORDS")

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
FORMAT_MODULE_PATH = ["config.web.formats"]

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

# Without CELERY_BROKER_URL the queue is in the service's own database.
CELERY_BROKER_URL = environment.broker_url("CELERY_BROKER_URL", broker.URL)
CELERY_BROKER_TRANSPORT_OPTIONS = broker.transport_options(CELERY_BROKER_URL, DATABASES["default"])
CELERY_BROKER_HEARTBEAT = keepalive.AMQP_HEARTBEAT
# Transport options of publishers only. A message only wakes a worker, and beat soon sends another
# one. So publishing to a missing or silent broker fails soon and does not hold up its sender.
CELERY_BROKER_PUBLISH_OPTIONS = {"use_notify": False, "max_retries": 0, "socket_timeout": 3.0}
CELERY_BROKER_CONNECTION_TIMEOUT = 3
CELERY_BROKER_POOL_ACQUIRE_TIMEOUT = 3
CELERY_TASK_PUBLISH_RETRY = False
# A worker without a broker keeps trying to reach it.
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = periodic_tasks.DEFAULT_QUEUE
CELERY_TASK_QUEUES = periodic_tasks.QUEUES
CELERY_TASK_ROUTES = periodic_tasks.ROUTES
CELERY_TIMEZONE = "UTC"
CELERY_WORKER_CONSUMER = "config.celery:QuietConsumer"
CELERY_WORKER_POOL = "config.celery.pool:Pool"
CELERY_WORKER_CONCURRENCY = environment.integer(
    "EDS_CELERY_WORKERS", os.cpu_count() or 1, minimum=1
)
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
# Seconds after which the process of a task is killed, unless the task has its own limit. Each task
# ends after some seconds or a piece of work, so only one that hangs takes that long.
CELERY_TASK_TIME_LIMIT = 30 * 60
# KiB. A process that used more is replaced after its task, because Python keeps its memory.
CELERY_WORKER_MAX_MEMORY_PER_CHILD = int(memory.REPLACED_AT * WORKER_MEMORY_MB * 1024)
# A worker reserves no more wake-ups than it can process.
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Without this Celery would close the database connection around every task.
CELERY_DB_REUSE_MAX = 10_000
CELERY_BEAT_SCHEDULER = "config.celery.schedule:Scheduler"
# Seconds that beat sleeps at most, and within which it sees a schedule changed in the admin.
CELERY_BEAT_MAX_LOOP_INTERVAL = 5
CELERY_BEAT_SCHEDULE = periodic_tasks.SCHEDULE

# --- Promises that an operator may want to change ---------------------------------------------

# Requests per minute of a read token; 0 for no limit.
READ_REQUESTS_PER_MINUTE = environment.integer("EDS_READ_REQUESTS_PER_MINUTE", 600)
METRICS_TOKEN = environment.text("EDS_METRICS_TOKEN")
# With more waiting messages the ingestion API answers 503 until the backlog is smaller.
INBOX_LIMIT = environment.integer("EDS_INBOX_LIMIT", 1_000_000, minimum=1)
# What a product may have and send, unless a superuser sets its own limits.
MAX_MESSAGES_PER_SECOND = environment.integer("EDS_MAX_MESSAGES_PER_SECOND", 50_000, minimum=1)
MAX_MESSAGES_PER_DAY = environment.integer("EDS_MAX_MESSAGES_PER_DAY", 500_000_000, minimum=1)
MAX_EVENT_NAMES = environment.integer("EDS_MAX_EVENT_NAMES", 100_000, minimum=1)
MAX_TRAIT_NAMES = environment.integer("EDS_MAX_TRAIT_NAMES", 10_000, minimum=1)
MAX_SUBJECTS = environment.integer("EDS_MAX_SUBJECTS", 50_000_000, minimum=1)
MAX_SEGMENTS = environment.integer("EDS_MAX_SEGMENTS", 1_000, minimum=1)
# An installation that began with another default keeps it (``KeptDefault``).
EVENT_RETENTION_IS_SET = bool(environment.text("EDS_EVENT_RETENTION_DAYS"))
EVENT_RETENTION_DAYS = environment.integer("EDS_EVENT_RETENTION_DAYS", 150, minimum=31)
TRAIT_HISTORY_RETENTION_DAYS = environment.integer(
    "EDS_TRAIT_HISTORY_RETENTION_DAYS", 1_095, minimum=31
)
# Days for which a repeated message id has no effect.
MESSAGE_ID_RETENTION_DAYS = environment.integer("EDS_MESSAGE_ID_RETENTION_DAYS", 7, minimum=1)
# Days for which dropped messages are listed, and their number per product.
DROPPED_RETENTION_DAYS = environment.integer("EDS_DROPPED_RETENTION_DAYS", 30, minimum=1)
DROPPED_LIMIT = environment.integer("EDS_DROPPED_LIMIT", 20_000, minimum=1)
QUARANTINE_RETENTION_DAYS = environment.integer("EDS_QUARANTINE_RETENTION_DAYS", 90, minimum=1)
# Days for which the trail keeps who changed what. The database keeps each entry for 30 at least.
TRAIL_RETENTION_DAYS = environment.integer("EDS_TRAIL_RETENTION_DAYS", 400, minimum=30)
# Days for which notifications and their attempts are listed. Quiet periods, up to 30 days, look
# back into them.
NOTIFICATION_RETENTION_DAYS = environment.integer("EDS_NOTIFICATION_RETENTION_DAYS", 30, minimum=30)

# --- Notifications ----------------------------------------------------------------------------

_email = environment.email("EDS_EMAIL_URL")
# Without a mail server nothing is sent, and forms offer no email.
HAS_EMAIL = bool(_email)
EMAIL_HOST = _email.get("EMAIL_HOST", "")
EMAIL_PORT = _email.get("EMAIL_PORT", 25)
EMAIL_HOST_USER = _email.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = _email.get("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = _email.get("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = _email.get("EMAIL_USE_SSL", False)
EMAIL_TIMEOUT = _email.get("EMAIL_TIMEOUT", 10)
DEFAULT_FROM_EMAIL = environment.text("EDS_EMAIL_FROM", "eds@localhost")

# Networks of ours that notifications and exports may go to, also by http://. Others must be public.
WEBHOOK_ALLOWED_NETWORKS = environment.networks("EDS_WEBHOOK_ALLOWED_NETWORKS")
# The proxy on the way to public addresses, and the hosts that are reached without it.
OUTBOUND_PROXY, OUTBOUND_NO_PROXY = environment.https_proxy()

# --- Scheduled exports ------------------------------------------------------------------------

# The folder of the workers' machine that exports may be written to; none if it is empty.
EXPORT_FOLDER = environment.file_path("EDS_EXPORT_FOLDER")
# Days for which the runs of an export are listed. Files are never deleted.
EXPORT_RUN_RETENTION_DAYS = environment.integer("EDS_EXPORT_RUN_RETENTION_DAYS", 90, minimum=1)

# --- CRMs -------------------------------------------------------------------------------------

# Instead of the customers' own hosts, for tests.
SALESFORCE_URL = environment.text("EDS_SALESFORCE_URL").rstrip("/")
HUBSPOT_API_URL = environment.text("EDS_HUBSPOT_URL", "https://api.hubapi.com").rstrip("/")

# --- Backups ----------------------------------------------------------------------------------

# The folder of base backups of the embedded PostgreSQL, and of its WAL; none if it is empty.
BACKUP_FOLDER = environment.text("EDS_BACKUP_FOLDER")
# How many base backups are kept.
BACKUP_KEEP = environment.integer("EDS_BACKUP_KEEP", 7, minimum=1)

# --- The marketplace --------------------------------------------------------------------------

MARKETPLACE_API_URL = environment.marketplace_url(
    "MARKETPLACE_API_URL",
    "https://api.atlassian.com",
    is_http_allowed=environment.flag("EDS_MARKETPLACE_ALLOW_HTTP"),
)
MARKETPLACE_PROXIES = environment.proxies(MARKETPLACE_API_URL)
MARKETPLACE_CA_BUNDLE = environment.file_path("REQUESTS_CA_BUNDLE") or environment.file_path(
    "SSL_CERT_FILE"
)

# --- Logs -------------------------------------------------------------------------------------

LOG_FORMAT = environment.choice("EDS_LOG_FORMAT", "text", ("text", "json"))
# A line for each request, and for each step of a traced message.
ACCESS_LOG = environment.flag("EDS_ACCESS_LOG")
# Where spans are sent. The libraries of OpenTelemetry read their other variables themselves.
OTLP_ENDPOINT = environment.text("OTEL_EXPORTER_OTLP_ENDPOINT")
# Log Python's warnings as JSON, too.
logging.captureWarnings(LOG_FORMAT == "json")
LOGGING = settings.logging(LOG_FORMAT)
