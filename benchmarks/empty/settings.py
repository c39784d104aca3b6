"""The service's settings with another address book."""

from config.settings import *  # noqa: F403  whatever the service has, it is compared on

ROOT_URLCONF = "benchmarks.empty.urls"
