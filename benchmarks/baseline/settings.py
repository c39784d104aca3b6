"""Settings of the baseline; ``benchmarks.usual_way`` gives the places."""

import os

SECRET_KEY = "of a project that keeps no secrets"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "benchmarks.baseline.urls"
# The service's web worker asks for it.
WORKER_MEMORY_MB = None
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "rest_framework",
    "benchmarks.baseline",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "baseline",
        "USER": "postgres",
        "HOST": os.environ["BASELINE_DATABASE_HOST"],
        # Kept for good: opening one costs more than the insert.
        "CONN_MAX_AGE": None,
    }
}
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "UNAUTHENTICATED_USER": None,
}

CELERY_BROKER_URL = os.environ["BASELINE_REDIS"]
CELERY_TASK_IGNORE_RESULT = True
# Or Celery closes the database connection around every task.
CELERY_DB_REUSE_MAX = 1_000_000
CELERY_WORKER_PREFETCH_MULTIPLIER = 16
