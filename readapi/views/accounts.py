"""Accounts: ranked, looked up, and one with all that is known of it."""

from rest_framework.response import Response

from readapi import details, pagination, parameters, queries, serializers
from readapi.views.base import ReadView


class AccountList(ReadView):
    """The accounts of a workspace, highest score first, or the one that a look-up finds."""

    PARAMETERS = ("workspace_id", *parameters.LOOKUP_PARAMETERS, *parameters.PAGING_PARAMETERS)

    def answer(self) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        match = parameters.lookup(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        order = queries.ACCOUNT_RANKING
        asked = pagination.parse_page_request(self.parameters, f"accounts/{workspace_id}", order)

        workspace = queries.workspace(self.product, workspace_id)
        found = queries.ranked_accounts(workspace, match)
        page = pagination.paginate(found, order, asked.with_score_set(workspace.scores_id))
        records = [serializers.account_summary(row, workspace, self.links) for row in page.rows]
        return self.page_response(page, records, expansions)


class AccountDetail(ReadView):
    """One account with all that is known of it."""

    PARAMETERS = ("workspace_id", "expand")
    EXPANSIONS = ("insights", "traits", "segments", "events", "history")

    def answer(self, account_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="account")
        row = queries.account(workspace, account_id)
        detail = details.AccountDetails(workspace, row)
        record = serializers.full_account(row, workspace, detail.metrics, self.links)
        return self.record_response(record | detail.expand(expansions), expansions)
