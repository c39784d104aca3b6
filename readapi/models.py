"""The tokens that internal tools read with."""

from django.db import models

from engagement.models import Credential


class ApiToken(Credential):
    """A token of one product; it reads that product's workspaces and nothing else."""

    PREFIX = "eds"

    class Meta(Credential.Meta):
        verbose_name = "API token"


class Usage(models.Model):
    """How many requests a token has made in a minute, the last in which it made any.

    The table is unlogged: counting costs no write to disk, and a crash of the database begins anew.
    """

    token = models.OneToOneField(
        ApiToken, on_delete=models.CASCADE, primary_key=True, db_constraint=False
    )
    minute = models.DateTimeField()
    requests = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.requests} requests at {self.minute}"
