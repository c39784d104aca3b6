"""Tables of logins, invites, secrets, and the trail. They keep the names that they had in
``engagement``."""

from access.models.invites import Invite
from access.models.logins import (
    ExternalIdentity,
    LoginAttempts,
    LoginPreferences,
    LoginSession,
    ProvenAddress,
    RecoveryCode,
    RoleGrant,
    SecondFactor,
)
from access.models.trail import TrailEntry

__all__ = [
    "ExternalIdentity",
    "Invite",
    "LoginAttempts",
    "LoginPreferences",
    "LoginSession",
    "ProvenAddress",
    "RecoveryCode",
    "RoleGrant",
    "SecondFactor",
    "TrailEntry",
]
