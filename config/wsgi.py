"""The WSGI application that the web role serves."""

import os
from importlib import import_module

import django
from django.conf import settings
from django.core.signals import request_started
from django.db import close_old_connections, reset_queries

from config.database.pool import fail_waiting
from config.server.handler import WebHandler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# A greenlet serves each client, and Django would keep a database connection for each greenlet: a
# thousand idle clients would hold a thousand. So the web role borrows one from a pool per request.
POOLS = {"default": settings.WEB_DATABASE_POOL, "replica": settings.WEB_REPLICA_POOL}
for name, database in settings.DATABASES.items():
    database["CONN_MAX_AGE"] = 0
    database["OPTIONS"]["pool"] = {**POOLS[name], "reconnect_failed": fail_waiting}

django.setup(set_prefix=False)
# Each request gives its connection back when it ends, so none is old when the next one starts, and
# queries are logged only in debug mode. Asking costs more than reading and checking a message.
request_started.disconnect(close_old_connections)
if not settings.DEBUG:
    request_started.disconnect(reset_queries)
application = WebHandler()
# Django would load the views with the first request and delay it.
import_module(settings.ROOT_URLCONF)
application.observing.collector.start()
