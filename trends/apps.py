from importlib import import_module

from django.apps import AppConfig


class TrendsConfig(AppConfig):
    name = "trends"
    verbose_name = "Trends"

    def ready(self) -> None:
        # Models cannot be imported earlier.
        import_module("trends.changes.nights").register()
        import_module("trends.cohorts.jobs").register()
        import_module("trends.figures.jobs").register()
        import_module("trends.usage.nights").register()
