"""The look-up of version 1: one account, at the root of the response."""

from rest_framework.response import Response

from readapi import details, parameters, queries, serializers
from readapi.views.base import ReadView


class LegacyAccountView(ReadView):
    """One account, by its ID or by a look-up. Its score is a fraction from 0 to 1."""

    PARAMETERS = ("workspace_id", "id", *parameters.LOOKUP_PARAMETERS, "expand")
    EXPANSIONS = ("insights", "traits", "segments")
    READS = ("account",)

    def build_response(self) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        id_or_lookup = parameters.id_or_lookup(self.parameters)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="account")
        if isinstance(id_or_lookup, int):
            row = queries.account(workspace, id_or_lookup)
        else:
            row = queries.find_account(workspace, id_or_lookup)
        account = details.AccountDetails(workspace, row, shows_users=self.shows_users)
        record = serializers.legacy_account(row, account.metrics)
        expansions = account.expand(self.expansions)
        return Response(record | expansions | {"_expansions": self.expansions})
