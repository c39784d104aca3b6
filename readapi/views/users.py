"""Users: ranked, looked up, and one with all that is known of them."""

from rest_framework.response import Response

from readapi import details, pagination, parameters, queries, serializers
from readapi.views.base import ReadView


class UserList(ReadView):
    """The users of a workspace, highest score first, or the one that a look-up finds."""

    PARAMETERS = ("workspace_id", *parameters.LOOKUP_PARAMETERS, *parameters.PAGING_PARAMETERS)

    def answer(self) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        match = parameters.lookup(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        order = queries.USER_RANKING
        asked = pagination.parse_page_request(self.parameters, f"users/{workspace_id}", order)

        workspace = queries.workspace(self.product, workspace_id)
        found = queries.ranked_users(workspace, match)
        page = pagination.paginate(found, order, asked.with_score_set(workspace.scores_id))
        records = [serializers.user_summary(row, workspace, self.links) for row in page.rows]
        return self.page_response(page, records, expansions)


class UserDetail(ReadView):
    """One user with all that is known of them."""

    PARAMETERS = ("workspace_id", "expand", "traits")
    EXPANSIONS = ("traits", "segments", "events", "history")

    def answer(self, user_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        trait_names = parameters.trait_names(self.parameters)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="user")
        row = queries.user(workspace, user_id)
        detail = details.UserDetails(workspace, row, trait_names)
        record = serializers.full_user(row, workspace, detail.metrics, self.links)
        return self.record_response(record | detail.expand(expansions), expansions)
