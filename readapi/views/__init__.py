"""The read API's endpoints."""

from readapi.views.accounts import AccountDetail, AccountList
from readapi.views.base import UnknownPath
from readapi.views.legacy import LegacyAccount
from readapi.views.segments import SegmentDetail, SegmentList, SegmentMembers
from readapi.views.users import UserDetail, UserList
from readapi.views.workspaces import WorkspaceDetail, WorkspaceList

__all__ = [
    "AccountDetail",
    "AccountList",
    "LegacyAccount",
    "SegmentDetail",
    "SegmentList",
    "SegmentMembers",
    "UnknownPath",
    "UserDetail",
    "UserList",
    "WorkspaceDetail",
    "WorkspaceList",
]
