from importlib import import_module

from django.apps import AppConfig


class OutcomesConfig(AppConfig):
    name = "outcomes"
    verbose_name = "Outcomes"

    def ready(self) -> None:
        # Models cannot be imported earlier.
        import_module("outcomes.backtests.jobs").register()
        import_module("outcomes.suggestions.jobs").register()
        import_module("outcomes.chances.jobs").register()
        import_module("outcomes.forecasts.jobs").register()
