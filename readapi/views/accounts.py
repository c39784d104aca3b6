"""Accounts: the list, the look-up, one account, and its users."""

from typing import Any

from django.db.models import QuerySet
from rest_framework.response import Response

from readapi import details, filters, parameters, queries, rights, serializers
from readapi.views import rankings
from readapi.views.base import ReadView


class AccountList(rankings.RankedList):
    """The accounts of a workspace, highest score first, those that match the filters, or the one
    that `match_type` finds.
    """

    PARAMETERS = rankings.list_parameters("account")
    EXPANSIONS = (*rankings.EXPANSIONS, "chances", "closed_alarms")
    READS = ("account",)
    ranking = rankings.ACCOUNTS


class AccountDetail(ReadView):
    """One account with its metrics and, by `expand`, more."""

    PARAMETERS = ("workspace_id", "expand", "traits")
    EXPANSIONS = (
        "insights",
        "traits",
        "segments",
        "events",
        "history",
        "license_events",
        "chances",
        "features",
        "activation",
        "closed_alarms",
        "notes",
    )
    READS = ("account",)

    def build_response(self, account_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        trait_names = parameters.trait_names(self.parameters)
        if "notes" in self.expansions:
            # Nobody knows whom they name.
            rights.require_user_traits(self.token)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="account")
        row = queries.account(workspace, account_id)
        account = details.AccountDetails(workspace, row, trait_names, self.shows_users)
        record = serializers.full_account(
            row, workspace, account.activity, account.work, account.metrics, self.links
        )
        return self.record_response(record | account.expand(self.expansions))


class AccountUsers(rankings.RankingView):
    """The users whose current account this is, highest score first."""

    PARAMETERS = ("workspace_id", *rankings.COMMON_PARAMETERS, *parameters.PAGING_PARAMETERS)
    READS = ("account", "user")

    def build_response(self, account_id: int) -> Response:
        ranking = rankings.USERS
        list_filter = filters.parse(self.parameters, "user")
        request = self.page_request(f"accounts/{account_id}/users", ranking)

        workspace = self.ranked_workspace(ranking)
        queries.require_account(workspace, account_id)

        def narrow(rows: QuerySet[Any]) -> QuerySet[Any]:
            return list_filter.apply(queries.users_of(rows, workspace, account_id), workspace)

        total = self.total(ranking, workspace, narrow)
        return self.ranking_response(ranking, workspace, narrow, request, total)
