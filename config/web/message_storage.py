"""Where a notice waits for the next page: in a cookie, or in the session if it is long."""

from django.conf import settings
from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.messages.storage.session import SessionStorage


class HostCookieStorage(CookieStorage):
    """With a name that browsers accept only from this host, and only over HTTPS."""

    cookie_name = "__Host-eds-messages" if settings.HTTPS else "eds-messages"


class MessageStorage(FallbackStorage):
    storage_classes = (HostCookieStorage, SessionStorage)
