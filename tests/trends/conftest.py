"""Acme's scores, whose rows the tests write."""

from tests.engagement.conftest import scores

__all__ = ["scores"]
