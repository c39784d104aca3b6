"""Estimates with their intervals, in numpy. Nothing here knows of the database."""
