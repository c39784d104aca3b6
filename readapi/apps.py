from django.apps import AppConfig


class ReadApiConfig(AppConfig):
    name = "readapi"
    verbose_name = "Read API"
