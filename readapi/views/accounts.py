"""Accounts: the list, the look-up, and one account."""

from rest_framework.response import Response

from readapi import details, parameters, queries, serializers
from readapi.views import rankings
from readapi.views.base import ReadView


class AccountList(rankings.RankedList):
    """The accounts of a workspace, highest score first, or the one that a look-up finds."""

    ranking = rankings.ACCOUNTS


class AccountDetail(ReadView):
    """One account with its metrics and, by `expand`, more."""

    PARAMETERS = ("workspace_id", "expand")
    EXPANSIONS = ("insights", "traits", "segments", "events", "history")

    def build_response(self, account_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="account")
        row = queries.account(workspace, account_id)
        account = details.AccountDetails(workspace, row)
        record = serializers.full_account(row, workspace, account.metrics, self.links)
        return self.record_response(record | account.expand(self.expansions))
