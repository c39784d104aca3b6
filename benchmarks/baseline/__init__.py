"""The usual way to take events: a serializer, an ORM insert and a Celery message per request.

A Django project of its own, set up to be fast: connections are kept, requests pass only the
middlewares they need, and a task is one transaction.
"""
