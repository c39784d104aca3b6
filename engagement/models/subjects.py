"""Who is scored: users, the accounts they work in, and the sightings that link them."""

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Left, Lower

EXTERNAL_ID_LENGTH = 512
# A longer text does not fit an index entry, and no e-mail address or domain is longer.
INDEXED_TEXT_LENGTH = 320


class Subject(models.Model):
    """What users and accounts have in common.

    ``traits`` maps names to JSON values. ``trait_stamps`` maps each name, removed ones included,
    to the stamp of the message that last wrote it (``engagement.traits.read_stamp`` reads it).
    ``is_identified`` is false while only strangers' events have named the subject: it is then
    shown nowhere and scores nothing. ``first_seen_at`` and ``last_seen_at`` are the times of the
    first and last message that named it; ``created_at`` is what a trait says of its creation
    (``engagement.tenure``), None where none does.
    """

    id = models.BigAutoField(primary_key=True)
    external_id = models.CharField(max_length=EXTERNAL_ID_LENGTH)
    traits = models.JSONField(default=dict)
    trait_stamps = models.JSONField(default=dict)
    is_identified = models.BooleanField(default=False)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    created_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.external_id

    def trait_text(self, name: str) -> str | None:
        """The trait where it is a text, else None."""
        value = self.traits.get(name)
        return value if isinstance(value, str) else None

    @property
    def name(self) -> str | None:
        return self.trait_text("name")


class Account(Subject):
    """A customer's organisation; ``external_id`` is the ``groupId`` the customer sent."""

    # No index of its own: the unique constraint's serves, and a second one tempts the planner.
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_index=False)

    class Meta:
        constraints = [
            # Recording finds accounts by it, product by product.
            models.UniqueConstraint(
                fields=["product", "external_id"], name="account_external_id_per_product"
            ),
        ]
        indexes = [
            # The read API's look-up by any trait.
            GinIndex(fields=["traits"], name="account_traits", opclasses=["jsonb_path_ops"]),
            # The read API's look-up by domain, which ignores case.
            models.Index(
                F("product_id"),
                Lower(Left(KeyTextTransform("domain", "traits"), INDEXED_TEXT_LENGTH)),
                name="account_domain",
            ),
            # Segments of those who are new, which may be few: then nobody ranks all to find them.
            models.Index(Coalesce("created_at", "first_seen_at"), name="account_created"),
        ]

    @property
    def domain(self) -> str | None:
        return self.trait_text("domain")


class User(Subject):
    """A person; ``external_id`` is the ``userId`` the customer sent.

    ``account`` is where the latest sighting puts them. Sightings up to and after
    ``account_since`` all say so: an event at or after it needs no look into the sightings. It is
    None while every sighting names the same account, which then owns all the user's events.
    """

    # No index of its own: the unique constraint's serves, and a second one tempts the planner.
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_index=False)
    account = models.ForeignKey(
        Account, null=True, on_delete=models.SET_NULL, db_constraint=False, related_name="users"
    )
    account_since = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            # Recording finds users by it, product by product.
            models.UniqueConstraint(
                fields=["product", "external_id"], name="user_external_id_per_product"
            ),
        ]
        indexes = [
            GinIndex(fields=["traits"], name="user_traits", opclasses=["jsonb_path_ops"]),
            # The read API's look-up by e-mail address, which ignores case.
            models.Index(
                F("product_id"),
                Lower(Left(KeyTextTransform("email", "traits"), INDEXED_TEXT_LENGTH)),
                name="user_email",
            ),
            # As account_created.
            models.Index(Coalesce("created_at", "first_seen_at"), name="user_created"),
        ]

    @property
    def email(self) -> str | None:
        return self.trait_text("email")


class Membership(models.Model):
    """A sighting of a user in an account at a time. Of two at the same time the later arrival
    counts."""

    pk = models.CompositePrimaryKey("product_id", "user_id", "occurred_at", "account_id")
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_index=False)
    user = models.ForeignKey(User, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    account = models.ForeignKey(
        Account, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    occurred_at = models.DateTimeField()
    arrival = models.BigIntegerField()

    def __str__(self) -> str:
        return f"user {self.user_id} in account {self.account_id} at {self.occurred_at}"


class ReattributionRequest(models.Model):
    """Says that events of a user's span of time may be in another account than their links say.

    Recording only ever appends requests; ``engagement.recording.reattribution`` works them off.
    ``end_at`` is not part of the span, None is without a bound, and of the events at the very start
    those with an earlier arrival than ``arrival`` are done. Overlapping requests are ordinary.
    """

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    user_id = models.BigIntegerField()
    start_at = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    arrival = models.BigIntegerField(default=0)

    class Meta:
        indexes = [
            # Each step takes all requests of a user.
            models.Index(fields=["product", "user_id"], name="reattribution_by_user"),
        ]

    def __str__(self) -> str:
        return f"events of user {self.user_id} from {self.start_at} to {self.end_at}"
