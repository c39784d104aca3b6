from datetime import timedelta
from importlib import import_module

from django.apps import AppConfig

# No job waits longer for its next step, and no lease is longer.
TIMES = {"due_at": timedelta(days=1), "leased_until": timedelta(hours=1)}


class CoreConfig(AppConfig):
    name = "core"
    verbose_name = "Core"

    def ready(self) -> None:
        # Imports models, which are ready only now.
        clocks = import_module("core.database.clocks")
        clocks.register(import_module("core.models").Job, TIMES)
