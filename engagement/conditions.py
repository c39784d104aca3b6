"""Conditions that users and accounts meet or do not meet."""

from datetime import date
from typing import Any

from django.db.models import Q


class Rule:
    """Conditions, all or any of which must be met."""

    uses_time = False
    uses_account_traits = False


def parse(stored: dict[str, Any], scope: str, *, for_audience: bool = False) -> Rule:
    raise NotImplementedError


def subject_filter(rule: Rule, product_id: int, today: date) -> Q:
    raise NotImplementedError
