"""Read tokens and how often each is used."""

from django.db import models

from engagement.models import Credential


class ApiToken(Credential):
    """A token of one product. It can read that product's workspaces and nothing else."""

    PREFIX = "eds"

    class Meta(Credential.Meta):
        verbose_name = "API token"


class Usage(models.Model):
    """How many requests a token made in the last minute in which it made any.

    The table is unlogged: counting writes nothing to disk, and a database crash resets the counts.
    """

    token = models.OneToOneField(
        ApiToken, on_delete=models.CASCADE, primary_key=True, db_constraint=False
    )
    minute = models.DateTimeField()
    requests = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.requests} requests at {self.minute}"
