from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig as DjangoAdminConfig
from django.db.models.signals import post_migrate


class AdminConfig(DjangoAdminConfig):
    default_site = "config.admin.ServiceAdminSite"


class ServiceConfig(AppConfig):
    name = "config"
    verbose_name = "Service"

    def ready(self) -> None:
        # Tasks declared with @shared_task belong to this application from now on.
        import_module("config.celery")
        post_migrate.connect(_install_queues, sender=self)


def _install_queues(**_: Any) -> None:
    # Imported when needed: only a migration needs the broker's SQL.
    import_module("config.queue_schema").install()
