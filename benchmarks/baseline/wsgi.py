"""The WSGI application of the baseline."""

from django.core.wsgi import get_wsgi_application

from benchmarks.baseline import celery  # so that tasks find their broker

__all__ = ["application", "celery"]

application = get_wsgi_application()
