from django.apps import AppConfig


class OutcomesConfig(AppConfig):
    name = "outcomes"
    verbose_name = "Outcomes"
