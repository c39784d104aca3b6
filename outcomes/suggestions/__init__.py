"""Weights that outcomes suggest."""
