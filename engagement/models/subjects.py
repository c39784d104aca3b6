"""Users, accounts, and the memberships that say which users are in which accounts."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, Left, Lower

from core.product_keys import ProductForeignKey

EXTERNAL_ID_LENGTH = 512
SEVERAL_IDS = 0
# A longer text does not fit into an index entry, and no email address or domain is longer.
INDEXED_TEXT_LENGTH = 320


class Subject(models.Model):
    """What users and accounts have in common.

    ``traits`` maps names to JSON values. ``trait_stamps`` maps each name, including removed ones,
    to the stamp of the message that last wrote it (``engagement.traits.read_stamp`` reads it).
    ``is_identified`` is false while only events of unidentified users have named the subject: it is
    then shown nowhere and scores nothing. ``first_seen_at`` and ``last_seen_at`` are the times of
    the first and last message that named it. A user's events move ``last_seen_at`` once a day:
    ``last_seen`` finds the exact time. ``created_at`` is when a trait says that it was
    created (``engagement.tenure``), None if none does.
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
        """The trait if it is text, else None."""
        value = self.traits.get(name)
        return value if isinstance(value, str) else None

    @property
    def name(self) -> str | None:
        return self.trait_text("name")


class Account(Subject):
    """A customer's organization. ``external_id`` is the ``groupId`` that senders use."""

    # The unique constraint's index serves; a second one would tempt the planner.
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_index=False)

    class Meta:
        constraints = [
            # Recording finds accounts by it, product by product.
            models.UniqueConstraint(
                fields=["product", "external_id"], name="account_external_id_per_product"
            ),
        ]
        indexes = [
            # The read API's lookup by any trait.
            GinIndex(fields=["traits"], name="account_traits", opclasses=["jsonb_path_ops"]),
            # The read API's lookup by domain, which ignores case.
            models.Index(
                F("product_id"),
                Lower(Left(KeyTextTransform("domain", "traits"), INDEXED_TEXT_LENGTH)),
                name="account_domain",
            ),
            # Segments of new subjects. These may be few, and ranking all to find them is slow.
            models.Index(Coalesce("created_at", "first_seen_at"), name="account_created"),
        ]

    @property
    def domain(self) -> str | None:
        return self.trait_text("domain")


class User(Subject):
    """A person. ``external_id`` is the ``userId`` that senders use.

    ``account`` is the account of the latest membership. All memberships from ``account_since`` on
    name it, so an event at or after that time needs no lookup. ``account_since`` is None while all
    memberships name the same account, which then owns all the user's events.

    ``id_number`` is the number of ``external_id``, None for that of the row. Two rows that exchange
    their ids exchange the numbers, too, so events and memberships know which id they came with.

    A row with ``joined_to`` stands for an id that an alias joined to another user: it leads to that
    user's row, which is never joined itself, and is shown nowhere.
    """

    # The unique constraint's index serves; a second one would tempt the planner.
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_index=False)
    account = ProductForeignKey(
        Account, null=True, on_delete=models.SET_NULL, db_constraint=False, related_name="users"
    )
    account_since = models.DateTimeField(null=True)
    id_number = models.BigIntegerField(null=True)
    joined_to = ProductForeignKey(
        "self", null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )

    class Meta:
        constraints = [
            # Recording finds users by it, product by product.
            models.UniqueConstraint(
                fields=["product", "external_id"], name="user_external_id_per_product"
            ),
        ]
        indexes = [
            GinIndex(fields=["traits"], name="user_traits", opclasses=["jsonb_path_ops"]),
            # The read API's lookup by email address, which ignores case.
            models.Index(
                F("product_id"),
                Lower(Left(KeyTextTransform("email", "traits"), INDEXED_TEXT_LENGTH)),
                name="user_email",
            ),
            # Like account_created.
            models.Index(Coalesce("created_at", "first_seen_at"), name="user_created"),
        ]

    @property
    def email(self) -> str | None:
        return self.trait_text("email")


class Membership(models.Model):
    """A user belongs to an account from a time on. Of two at one time the later arrival counts.

    ``id_number`` is the number of the id that said so (``User.id_number``): None for that of the
    user's row, ``SEVERAL_IDS`` for more than one.
    """

    pk = models.CompositePrimaryKey("product_id", "user_id", "occurred_at", "account_id")
    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_index=False)
    user = ProductForeignKey(User, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    account = ProductForeignKey(
        Account, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    occurred_at = models.DateTimeField()
    arrival = models.BigIntegerField()
    id_number = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return f"user {self.user_id} in account {self.account_id} at {self.occurred_at}"


class Alias(models.Model):
    """An alias message: ``previous_id`` and ``new_id`` are ids of the person ``user``.

    Of a repeated pair, the latest message is kept. Together, a person's aliases name all the ids
    of the person, and decide which of them the person's row has (``engagement.recording.aliases``).
    """

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    user = ProductForeignKey(User, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False)
    previous_id = models.CharField(max_length=EXTERNAL_ID_LENGTH)
    new_id = models.CharField(max_length=EXTERNAL_ID_LENGTH)
    occurred_at = models.DateTimeField()
    arrival = models.BigIntegerField()

    class Meta:
        indexes = [
            # Joining reads all aliases of a person.
            models.Index(fields=["product", "user"], name="alias_by_user"),
        ]

    def __str__(self) -> str:
        return f"alias {self.pk} of user {self.user_id}"


class JoinRequest(models.Model):
    """Says that rows of a joined user are still to be moved to the user that it is joined to.

    ``engagement.recording.moving`` moves them in bounded steps.
    """

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    user_id = models.BigIntegerField()

    class Meta:
        indexes = [
            models.Index(fields=["product", "user_id"], name="join_request_by_user"),
        ]

    def __str__(self) -> str:
        return f"rows of joined user {self.user_id}"


class PartRequest(models.Model):
    """Says that rows which came with some ids are still to be moved to a user of their own.

    ``numbers`` are those of the ids (``User.id_number``). Events up to ``after_at`` and
    ``after_arrival`` are moved, ``moved`` of about ``total``. ``engagement.recording.parting``
    moves them in bounded steps.
    """

    id = models.BigAutoField(primary_key=True)
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    user_id = models.BigIntegerField()
    target_id = models.BigIntegerField()
    numbers = ArrayField(models.BigIntegerField())
    after_at = models.DateTimeField(null=True)
    after_arrival = models.BigIntegerField(default=0)
    moved = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    requested_at = models.DateTimeField()

    class Meta:
        indexes = [
            # A user's page shows the progress, and forgetting looks for what is left to move.
            models.Index(fields=["product", "user_id"], name="part_request_by_user"),
        ]

    def __str__(self) -> str:
        return f"rows of user {self.user_id} for user {self.target_id}"


class ReattributionRequest(models.Model):
    """Says that events of a user may be in the wrong account, in a span of time.

    Recording only appends requests; ``engagement.recording.reattribution`` processes them.
    ``end_at`` is not part of the span, and None is no bound. Of the events at the very start, those
    with an earlier arrival than ``arrival`` are done. Overlapping requests are normal.
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
            # Each step reads all requests of a user.
            models.Index(fields=["product", "user_id"], name="reattribution_by_user"),
        ]

    def __str__(self) -> str:
        return f"events of user {self.user_id} from {self.start_at} to {self.end_at}"
