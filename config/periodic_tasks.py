"""How often each background task runs, and in which queue. Celery beat takes the schedule over.

Marketplace syncs have a timetable that people see: ``marketplace.runs.timetable``.
"""

from datetime import timedelta
from typing import Any

from kombu import Queue

DEFAULT_QUEUE = "default"
# Scoring and license syncs have queues of their own, so that they can have their own workers. A
# statement of scoring may run for a minute, and syncs mostly wait for the marketplace. Neither may
# delay recording or the other. A worker without `--queues` reads all queues.
QUEUES = [Queue(name, name, routing_key=name) for name in (DEFAULT_QUEUE, "scoring", "marketplace")]
ROUTES = {
    "engagement.tasks.*": {"queue": "scoring"},
    "marketplace.tasks.*": {"queue": "marketplace"},
    # Sweeps read scores, and deliveries wait for others, as syncs do.
    "notifications.tasks.sweep": {"queue": "scoring"},
    "notifications.tasks.*": {"queue": "marketplace"},
    "exports.tasks.*": {"queue": "marketplace"},
    "destinations.tasks.*": {"queue": "marketplace"},
    # Backtests read for seconds, and scoring must not wait for them.
    "outcomes.tasks.*": {"queue": "marketplace"},
    "trends.tasks.*": {"queue": "marketplace"},
}


def _every(seconds: int, task: str) -> dict[str, Any]:
    """Return a schedule entry whose messages expire when the next is due, so none pile up."""
    return {"task": task, "schedule": timedelta(seconds=seconds), "options": {"expires": seconds}}


SCHEDULE = {
    # A safety net: a process that accepts messages asks for a drain itself.
    "drain the inbox": _every(5, "ingestion.tasks.drain"),
    "rescore what is stale": _every(5, "engagement.tasks.rescore"),
    "move events to other accounts": _every(10, "engagement.tasks.reattribute"),
    "delete what people asked to delete": _every(30, "engagement.tasks.clear"),
    "maintain the inbox": _every(600, "ingestion.tasks.maintain"),
    # It starts and resumes the syncs that are due. How far apart they are says an entry of its own
    # (marketplace.runs.timetable).
    "resume marketplace syncs": _every(60, "marketplace.tasks.resume"),
    "read marketplace reports": _every(60, "marketplace.tasks.read_reports"),
    "maintain events": _every(600, "engagement.tasks.maintain"),
    "watch for changes": _every(10, "notifications.tasks.sweep"),
    "deliver notifications": _every(10, "notifications.tasks.deliver"),
    "write digests": _every(60, "notifications.tasks.write_digests"),
    "maintain notifications": _every(600, "notifications.tasks.maintain"),
    "write scheduled exports": _every(60, "exports.tasks.run"),
    "maintain scheduled exports": _every(3600, "exports.tasks.maintain"),
    "send records": _every(60, "destinations.tasks.run"),
    "compute backtests": _every(60, "outcomes.tasks.run"),
    "compute figures of days": _every(60, "trends.tasks.run"),
}
