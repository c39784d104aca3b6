"""The pages that the site has besides those of models."""

from access.admin import account, sign_in
from console.dashboard import (
    home,
    jobs,
    licenses,
    matching,
    navigation,
    preferences,
    reconciliation,
    search,
)

__all__ = [
    "account",
    "home",
    "jobs",
    "licenses",
    "matching",
    "navigation",
    "preferences",
    "reconciliation",
    "search",
    "sign_in",
]
