from importlib import import_module

from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "notifications"
    verbose_name = "Notifications"

    def ready(self) -> None:
        # Models cannot be imported earlier.
        import_module("notifications.removal").register_erasers()
        import_module("notifications.retention").register()
