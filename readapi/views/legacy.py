"""The look-up that older clients use: one account, at the root of the answer."""

from rest_framework.response import Response

from readapi import details, parameters, queries, serializers
from readapi.views.base import ReadView


class LegacyAccountView(ReadView):
    """One account, by its id or by a match; its score is a fraction from 0 to 1."""

    PARAMETERS = ("workspace_id", "id", *parameters.LOOKUP_PARAMETERS, "expand")
    EXPANSIONS = ("insights", "traits", "segments")

    def answer(self) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        wanted = parameters.id_or_lookup(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="account")
        if isinstance(wanted, int):
            row = queries.account(workspace, wanted)
        else:
            row = queries.find_account(workspace, wanted)
        detail = details.AccountDetails(workspace, row)
        record = serializers.legacy_account(row, detail.metrics)
        return Response(record | detail.expand(expansions) | {"_expansions": expansions})
