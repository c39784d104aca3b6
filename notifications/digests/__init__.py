"""Digests: when each is due, what it says, and how a reader ends it."""
