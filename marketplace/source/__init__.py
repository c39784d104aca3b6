"""The marketplace's HTTP API."""
