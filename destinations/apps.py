from importlib import import_module

from django.apps import AppConfig


class DestinationsConfig(AppConfig):
    name = "destinations"
    verbose_name = "CRM"

    def ready(self) -> None:
        # Models cannot be imported earlier.
        import_module("destinations.runs").register()
        import_module("destinations.sending").register()
        import_module("destinations.forgetting").register_eraser()
