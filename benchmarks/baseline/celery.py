"""The baseline's Celery application."""

from celery import Celery

app = Celery("baseline")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
