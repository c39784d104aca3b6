"""Users: the list, the look-up, and one user."""

from rest_framework.response import Response

from readapi import details, parameters, queries, serializers
from readapi.views import rankings
from readapi.views.base import ReadView


class UserList(rankings.RankedList):
    """The users of a workspace, highest score first, those that match the filters, or the one that
    `match_type` finds.

    A tracking ID that an alias joined to another user finds that user.
    """

    PARAMETERS = rankings.list_parameters("user")
    READS = ("user",)
    ranking = rankings.USERS


class UserDetail(ReadView):
    """One user with their metrics and, by `expand`, more.

    The ID of a user who was joined to another by an alias returns that user, with their ID.
    """

    PARAMETERS = ("workspace_id", "expand", "traits")
    EXPANSIONS = ("traits", "segments", "events", "history", "features", "activation")
    READS = ("user",)

    def build_response(self, user_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        trait_names = parameters.trait_names(self.parameters)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="user")
        row = queries.user(workspace, user_id)
        user = details.UserDetails(workspace, row, trait_names)
        record = serializers.full_user(row, workspace, user.metrics, self.links)
        serializers.hide_user_traits([record], self.token.hides_user_traits)
        return self.record_response(record | user.expand(self.expansions))
