"""Tables of the service's own operation. The counts keep the names that they had in
``engagement``."""

from core.models.jobs import Job
from core.models.operation_counters import OperationCounter
from core.models.request_counts import RequestCount
from core.models.runs import Run

__all__ = ["Job", "OperationCounter", "RequestCount", "Run"]
