"""``python manage.py demo_alarms``: how the alarms of the demo did, beside what really happened."""

from typing import Any

from django.core.management.base import BaseCommand

from engagement.models import Workspace
from harness.demo import alarm_report


class Command(BaseCommand):
    help = (
        "Print how the alarms of products with generated data did: what they found and after how "
        "many days, what they missed, and how many began on accounts that do not change."
    )
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        # The oldest of each product.
        first = Workspace.objects.order_by("product_id", "id").distinct("product_id")
        for line in alarm_report.as_table(alarm_report.report(first)):
            self.stdout.write(line)
