from django.apps import AppConfig


class ServiceConfig(AppConfig):
    name = "config"
    verbose_name = "Service"
