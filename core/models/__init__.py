"""Tables of the service's own operation. They keep the names that they had in ``engagement``."""

from core.models.operation_counters import OperationCounter
from core.models.request_counts import RequestCount

__all__ = ["OperationCounter", "RequestCount"]
