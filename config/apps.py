from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.admin import apps as admin_apps
from django.contrib.admin import autodiscover
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate

from config.database import keepalive


class AdminConfig(admin_apps.SimpleAdminConfig):
    default = False  # the folder's own app is the one below
    default_site = "console.site.ServiceAdminSite"

    def ready(self) -> None:
        super().ready()
        if settings.HAS_PAGES:
            autodiscover()


class ServiceConfig(AppConfig):
    default = True
    name = "config"
    verbose_name = "Service"

    def ready(self) -> None:
        # Tasks declared with @shared_task belong to this Celery application from now on.
        import_module("config.celery")
        if settings.HAS_PAGES:
            # Models cannot be imported earlier.
            import_module("config.notification_sources").register_sources()
        if settings.OTLP_ENDPOINT:
            _set_up_tracing()
        connection_created.connect(keepalive.configure_connection)
        # Django sends this only for apps with models, and this app has none.
        post_migrate.connect(_install_queues, sender=apps.get_app_config("ingestion"))


def _set_up_tracing() -> None:
    try:
        tracing = import_module("config.operations.tracing")
    except ImportError:
        raise ImproperlyConfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and the packages of OpenTelemetry are missing. "
            "Run `pip install -r requirements-otel.txt`, or unset it."
        ) from None
    tracing.set_up()


def _install_queues(**_: Any) -> None:
    # Only a migration needs the broker's SQL.
    import_module("config.database.queue_schema").install()
