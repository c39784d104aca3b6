from importlib import import_module

from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "access"
    verbose_name = "Access"

    def ready(self) -> None:
        # Imports the models of logins, which are ready only now.
        import_module("access.logins.security_log").connect_signals()
        import_module("access.logins.time_zones").connect_signals()
        import_module("access.trail.sign_ins").connect_signals()
        import_module("access.logins.sessions").connect_signals()
        import_module("access.work.owners").connect_signals()
        import_module("access.work.rules").register()
        import_module("access.retention").register()
