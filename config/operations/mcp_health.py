"""What assistants learn about ingestion and the marketplace connection."""

from datetime import datetime

from engagement.models import Product
from ingestion.log import last_24h
from marketplace.models import Connection
from marketplace.runs.timetable import load_timetable
from marketplace.status.health import connection_health, load_last_runs
from readapi.mcp.schemas import ConnectionHealth, Health


def report_health(product: Product, now: datetime) -> Health:
    """The messages of the last 24 hours, and the state of the connection in words."""
    numbers = last_24h.for_products([product.pk], now)[product.pk]
    dropped = {str(reason.value): sum(hours) for reason, hours in numbers.dropped.items()}
    oldest = numbers.waiting.oldest if numbers.waiting else None
    return {
        "ingestion": {
            "accepted": numbers.accepted,
            "recorded": sum(numbers.recorded),
            "dropped": {reason: count for reason, count in dropped.items() if count},
            "in_quarantine": numbers.quarantined,
            "waiting": numbers.waiting.messages if numbers.waiting else None,
            "oldest_waiting_since": oldest.isoformat() if oldest else None,
        },
        "connection": _connection(product),
    }


def _connection(product: Product) -> ConnectionHealth | None:
    connection = Connection.objects.filter(product=product).first()
    if connection is None:
        return None
    last_runs = load_last_runs([connection.pk])[connection.pk]
    health = connection_health(connection, last_runs, load_timetable(), may_manage=False)
    last_success = connection.last_success_at
    return {
        "state": health.level,
        "text": health.sentence,
        "last_success_at": last_success.isoformat() if last_success else None,
    }
