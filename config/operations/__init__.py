"""How the service is doing: health, metrics, traces, and the doctor."""
