from importlib import import_module

from django.apps import AppConfig


class IngestionConfig(AppConfig):
    name = "ingestion"
    verbose_name = "Ingestion"

    def ready(self) -> None:
        # Imported here, because models are not available earlier.
        import_module("ingestion.erasers").register_erasers()
        import_module("ingestion.retention").register()
