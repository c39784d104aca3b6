"""Syncs: when they run, how they go on, and how they end."""
