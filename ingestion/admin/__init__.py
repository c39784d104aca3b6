"""The pages of ingestion in the admin: the way of a message, the log, and keys."""

from ingestion.admin import keys, log, messages

__all__ = ["keys", "log", "messages"]
