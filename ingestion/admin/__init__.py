"""Ingestion in the admin: messages, the ingestion log, and keys."""

from ingestion.admin import keys, log, messages

__all__ = ["keys", "log", "messages"]
