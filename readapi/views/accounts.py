"""Accounts: ranked, looked up, and one with all that is known of it."""

from rest_framework.response import Response

from readapi import details, pagination, parameters, queries, serializers
from readapi.views.base import ReadView


class AccountList(ReadView):
    """The accounts of a workspace, highest score first, or the one that a look-up finds."""

    PARAMETERS = ("workspace_id", *parameters.MATCH, *parameters.PAGING)

    def answer(self) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        match = parameters.match(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        order = queries.ACCOUNT_RANKING
        asked = pagination.asked(self.parameters, f"accounts/{workspace_id}", order)

        workspace = queries.workspace(self.product, workspace_id)
        found = queries.ranked_accounts(workspace, match)
        page = pagination.paginate(found, order, asked.ranked_by(workspace.scores_id))
        records = [serializers.lean_account(row, workspace, self.links) for row in page.rows]
        return self.many(page, records, expansions)


class AccountDetail(ReadView):
    """One account with all that is known of it."""

    PARAMETERS = ("workspace_id", "expand")
    EXPANSIONS = ("insights", "traits", "segments", "events", "history")

    def answer(self, account_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="account")
        row = queries.account(workspace, account_id)
        detail = details.AccountDetail(workspace, row)
        record = serializers.full_account(row, workspace, detail.metrics, self.links)
        return self.one(record | detail.expanded(expansions), expansions)
