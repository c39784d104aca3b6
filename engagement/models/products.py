"""Products and the workspaces that score them."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

DEFAULT_WORKSPACE_NAME = "Default"
# In days.
MIN_HALF_LIFE, MAX_HALF_LIFE = 7, 180


class Seats(models.TextChoices):
    """Whom the seats of licenses are for, beside the users who are counted here."""

    # Each active user takes a seat.
    APP = "app", "Users of the app"
    # They have a seat whether they use the app or not.
    HOST = "host", "Users of the host product"
    # The users who are counted here are no people.
    SITE = "site", "A site counts as one user"


class Product(models.Model):
    """A customer-facing product whose usage is scored. It owns keys, tokens and workspaces.

    ``history_traits`` are the names of the traits whose changes in accounts are kept, each with the
    day since when (``engagement.recording.stored_traits``).

    ``licensed_for`` says whom the seats of its licenses are for, and ``has_site_users`` that it
    sends one user for each site. ``engagement.segments.seats`` changes both.

    ``work`` is how people work on its accounts (``access.work.settings``).

    From ``deletion_requested_at`` on, the service deletes its rows in the background.
    ``deleted_rows`` counts them.
    """

    name = models.CharField(max_length=200)
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="ProductMember", related_name="products"
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    licensed_for = models.CharField(
        max_length=10, choices=Seats.choices, default=Seats.HOST, db_default=Seats.HOST
    )
    has_site_users = models.BooleanField(default=False, db_default=False)
    history_traits = models.JSONField(default=dict, db_default={}, editable=False)
    work = models.JSONField(default=dict, db_default={}, editable=False)
    # Until all of it is done, or somebody dismisses it. A product of an earlier release has none.
    shows_checklist = models.BooleanField(default=True, db_default=False, editable=False)
    deletion_requested_at = models.DateTimeField(null=True, editable=False)
    deleted_rows = models.BigIntegerField(default=0, db_default=0, editable=False)

    class Meta:
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name

    @property
    def seats(self) -> Seats:
        return Seats.SITE if self.has_site_users else Seats(self.licensed_for)

    @classmethod
    def name_of(cls, product_id: int) -> str:
        """The product's name, or its id if it is gone."""
        names = cls.objects.filter(pk=product_id).values_list("name", flat=True)
        return names.first() or str(product_id)

    @classmethod
    def create_with_workspace(cls, name: str) -> "Product":
        """Create a product with the workspace that each product starts with."""
        product = cls.objects.create(name=name)
        Workspace.objects.create(product=product, name=DEFAULT_WORKSPACE_NAME)
        return product


class ProductMember(models.Model):
    """A login that works on the product.

    A viewer sees everything except secrets and changes nothing. A manager may do everything,
    including managing the marketplace connection and working on accounts. A viewer may get the
    right to do only one of these, or both.
    """

    class Role(models.TextChoices):
        VIEWER = "viewer", "Viewer"
        MANAGER = "manager", "Manager"

    product = models.ForeignKey(Product, on_delete=models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    role = models.CharField(
        max_length=10,
        choices=Role.choices,
        default=Role.VIEWER,
        db_default=Role.VIEWER,
        help_text="A viewer sees everything but secrets and changes nothing. A manager sees "
        "secrets, too, and makes changes.",
    )
    may_manage_connections = models.BooleanField(
        default=False,
        db_default=False,
        verbose_name="may manage connections",
        help_text="A viewer may connect the product to a marketplace, too; managers may anyway.",
    )
    may_work_on_accounts = models.BooleanField(
        default=False,
        db_default=False,
        verbose_name="may work on accounts",
        help_text="A viewer may choose owners, write notes, and close alarms, too; managers may "
        "anyway.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["product", "user"], name="one_membership_per_product"),
            models.CheckConstraint(
                condition=Q(role__in=["viewer", "manager"]), name="member_role_known"
            ),
        ]

    def __str__(self) -> str:
        rights = {
            "manage connections": self.may_manage_connections,
            "work on accounts": self.may_work_on_accounts,
        }
        may = " and ".join(right for right, has in rights.items() if has)
        return f"{self.user}, {self.get_role_display().lower()}{may and f' who may {may}'}"


class Workspace(models.Model):
    """A scoring profile of a product: its lookback, its event weights, and its audience.

    With ``half_life_days``, an event counts half as much after that many days.
    The lookback is then a month, and says who is active and how long a period is.

    ``audience`` is a rule (see ``engagement.segments.members``) that users must meet to be scored
    and shown here; empty for all users. ``scores`` is the score set that readers see, with the
    definition that it was computed under; None until there is one.
    """

    class Lookback(models.IntegerChoices):
        DAY = 1, "1 day"
        WEEK = 7, "7 days"
        MONTH = 30, "30 days"

    class FalseAlarms(models.IntegerChoices):
        """Levels of alarms, by how many may come to nothing per 20 accounts and quarter."""

        HALF = 1, "½ per 20 accounts"
        ONE = 2, "1 per 20 accounts"
        TWO = 3, "2 per 20 accounts"
        FOUR = 4, "4 per 20 accounts"

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="workspaces")
    name = models.CharField(max_length=200)
    lookback_days = models.PositiveSmallIntegerField(
        choices=Lookback.choices,
        default=Lookback.WEEK,
        help_text="Scores count events of today and the days before it, this many in all.",
    )
    half_life_days = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(MIN_HALF_LIFE), MaxValueValidator(MAX_HALF_LIFE)],
        verbose_name="half-life in days",
    )
    default_weight = models.PositiveSmallIntegerField(
        default=1,
        validators=[MaxValueValidator(10)],
        help_text="Weight of all other events, 0 to 10. 0 scores only the events listed below.",
    )
    alarm_level = models.PositiveSmallIntegerField(
        choices=FalseAlarms.choices,
        default=FalseAlarms.ONE,
        db_default=FalseAlarms.ONE,
        verbose_name="false alarms",
        help_text="How many alarms a quarter may come to nothing. More of them find more.",
    )
    audience = models.JSONField(default=dict, editable=False)
    # Read by ``outcomes.settings``.
    outcomes = models.JSONField(default=dict, db_default={}, editable=False)
    # No constraint: deleting a product deletes both, and neither can go first.
    scores = models.OneToOneField(
        "engagement.ScoreSet",
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        db_constraint=False,
        related_name="+",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True, editable=False)

    class Meta:
        ordering = ["product_id", "id"]
        constraints = [
            models.UniqueConstraint(fields=["product", "name"], name="workspace_name_per_product"),
            models.CheckConstraint(
                condition=Q(lookback_days__in=[1, 7, 30]), name="workspace_lookback_allowed"
            ),
            models.CheckConstraint(
                condition=Q(half_life_days=None)
                | Q(half_life_days__range=(MIN_HALF_LIFE, MAX_HALF_LIFE), lookback_days=30),
                name="workspace_half_life_allowed",
            ),
            models.CheckConstraint(
                condition=Q(default_weight__range=(0, 10)), name="workspace_default_weight_range"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.product} · {self.name}"

    @classmethod
    def title_of(cls, pk: int) -> str:
        """What pages call the workspace with this id: the key of many jobs."""
        return str(cls.objects.select_related("product").filter(pk=pk).first() or pk)

    @property
    def counting(self) -> str:
        """Which events count, in words."""
        days = self.half_life_days
        return f"half-life of {days} days" if days else f"last {self.get_lookback_days_display()}"


class EventWeight(models.Model):
    """The weight of an event name in a workspace. An event that weighs 0 is not scored."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="weights")
    event_name = models.ForeignKey("engagement.EventName", on_delete=models.CASCADE)
    weight = models.PositiveSmallIntegerField(
        validators=[MaxValueValidator(10)], help_text="1 to 10; 0: this event is not scored."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "event_name"], name="one_weight_per_event_name"
            ),
            models.CheckConstraint(condition=Q(weight__range=(0, 10)), name="event_weight_0_to_10"),
        ]

    def __str__(self) -> str:
        return f"{self.event_name}: {self.weight}"
