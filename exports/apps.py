from importlib import import_module

from django.apps import AppConfig


class ExportsConfig(AppConfig):
    name = "exports"
    verbose_name = "Scheduled exports"

    def ready(self) -> None:
        # Models cannot be imported earlier.
        import_module("exports.runs").register()
        import_module("exports.writing").register()
