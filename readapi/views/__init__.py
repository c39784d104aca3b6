"""The read API's endpoints."""

from readapi.views.accounts import AccountDetail, AccountList, AccountUsers
from readapi.views.activation import ActivationDetail
from readapi.views.backtests import BacktestList
from readapi.views.base import UnknownPathView
from readapi.views.chances import ChanceList
from readapi.views.changes import ChangesDetail
from readapi.views.cohorts import CohortList
from readapi.views.features import FeatureList
from readapi.views.forecasts import ForecastList
from readapi.views.hooks import HookDetail, HookList, HookSamples
from readapi.views.legacy import LegacyAccountView
from readapi.views.license_events import LicenseEventList
from readapi.views.segments import SegmentDetail, SegmentList, SegmentMembers
from readapi.views.timeline import AccountTimeline, UserTimeline
from readapi.views.trends import TrendList
from readapi.views.users import UserDetail, UserList
from readapi.views.workspaces import WorkspaceDetail, WorkspaceList

__all__ = [
    "AccountDetail",
    "AccountList",
    "AccountTimeline",
    "AccountUsers",
    "ActivationDetail",
    "BacktestList",
    "ChanceList",
    "ChangesDetail",
    "CohortList",
    "FeatureList",
    "ForecastList",
    "HookDetail",
    "HookList",
    "HookSamples",
    "LegacyAccountView",
    "LicenseEventList",
    "SegmentDetail",
    "SegmentList",
    "SegmentMembers",
    "TrendList",
    "UnknownPathView",
    "UserDetail",
    "UserList",
    "UserTimeline",
    "WorkspaceDetail",
    "WorkspaceList",
]
