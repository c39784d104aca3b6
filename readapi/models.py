"""The tokens that internal tools read with."""

from engagement.models import Credential


class ApiToken(Credential):
    """A token of one product; it reads that product's workspaces and nothing else."""

    PREFIX = "eds"

    class Meta(Credential.Meta):
        verbose_name = "API token"
