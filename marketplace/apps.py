from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class MarketplaceConfig(AppConfig):
    name = "marketplace"
    verbose_name = "Marketplace"

    def ready(self) -> None:
        post_migrate.connect(_schedule_syncs, sender=self)
        # Models cannot be imported earlier.
        import_module("marketplace.forgetting").register_eraser()
        import_module("marketplace.ledger.erasing").register_eraser()
        import_module("marketplace.ledger.reading").register()
        import_module("marketplace.ledger.recomputation").register()
        import_module("marketplace.runs.scheduling").register_times()
        import_module("marketplace.runs.report_sources").register()
        import_module("marketplace.user_names").register()


def _schedule_syncs(**_: Any) -> None:
    # Models cannot be imported earlier.
    import_module("marketplace.runs.timetable").ensure_scheduled()
