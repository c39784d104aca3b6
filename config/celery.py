"""Celery: the workers that record and score in the background."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("engagement")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
