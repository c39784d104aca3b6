"""The WSGI application that the web role serves."""

import os
from importlib import import_module

import django
from django.conf import settings

from config.server.handler import LenientHandler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# Each client's connection is served by a greenlet of its own, and Django keeps a database
# connection for each of those: a thousand idle clients would hold a thousand. So the web role
# borrows one per request from a pool instead.
POOLS = {"default": settings.WEB_DATABASE_POOL, "replica": settings.WEB_REPLICA_POOL}
for name, database in settings.DATABASES.items():
    database["CONN_MAX_AGE"] = 0
    database["OPTIONS"]["pool"] = POOLS[name]

django.setup(set_prefix=False)
application = LenientHandler()
# Django loads the views with the first request, which would wait for that.
import_module(settings.ROOT_URLCONF)
