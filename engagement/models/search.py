"""What a search reads: the texts by which people look for a user or an account."""

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func


class SearchGrams(Func):
    """The hashes of a text's trigrams. The seed keeps kinds and products apart in the index."""

    function = "engagement_search_grams"


class SearchEntry(models.Model):
    """The searchable texts of an identified user or account, in lower case.

    ``text`` has the name, the email address or domain, and the external id. Each begins after two
    line breaks, so that trigrams also find the beginning of a text.
    """

    class Kind(models.IntegerChoices):
        ACCOUNT = 0
        USER = 1

    pk = models.CompositePrimaryKey("product_id", "kind", "subject_id")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    kind = models.SmallIntegerField(choices=Kind.choices)
    subject_id = models.BigIntegerField()
    text = models.TextField()

    class Meta:
        indexes = [
            GinIndex(SearchGrams(F("product_id") * 2 + F("kind"), F("text")), name="search_grams")
        ]

    def __str__(self) -> str:
        return f"{self.Kind(self.kind).label} {self.subject_id}"


class SearchBacklog(models.Model):
    """A product whose users or accounts are older than the search.

    Those with ids up to ``indexed_until`` have entries. The row stays for a day, because an older
    release that still runs during an upgrade adds users and accounts without entries.
    """

    pk = models.CompositePrimaryKey("product_id", "kind")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    kind = models.SmallIntegerField(choices=SearchEntry.Kind.choices)
    indexed_until = models.BigIntegerField(default=0)
    opened_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{SearchEntry.Kind(self.kind).label}s of product {self.product_id}"
