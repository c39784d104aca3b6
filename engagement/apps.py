from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils import timezone


class EngagementConfig(AppConfig):
    name = "engagement"
    verbose_name = "Engagement"

    def ready(self) -> None:
        post_migrate.connect(create_partitions, sender=self)
        import_module("engagement.removal.maintenance").register()
        import_module("engagement.recording.jobs").register()
        import_module("engagement.removal.jobs").register()
        import_module("engagement.rescoring.jobs").register()
        import_module("engagement.nights.jobs").register()


def create_partitions(**kwargs: Any) -> None:
    """Create the partition for this week's events before the first one arrives."""
    # The app registry is complete only now.
    from core.database.partitions import maintain_partitions

    kept_defaults = import_module("engagement.models.kept_defaults")
    maintain_partitions(timezone.now().date(), kept_defaults.event_retention_days())
