import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

CASCADE = django.db.models.deletion.CASCADE


class Migration(migrations.Migration):
    dependencies = [
        ("engagement", "0055_alarms_by_day"),
        ("notifications", "0009_chances_low"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="destination",
            name="owner",
            field=models.ForeignKey(
                db_constraint=False,
                editable=False,
                null=True,
                on_delete=CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="destination",
            constraint=models.UniqueConstraint(
                fields=("product", "owner"), name="one_own_destination_per_product"
            ),
        ),
        migrations.CreateModel(
            name="Digest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "cadence",
                    models.CharField(
                        choices=[("week", "Once a week"), ("day", "Once a day")],
                        default="week",
                        max_length=4,
                        verbose_name="how often",
                    ),
                ),
                (
                    "weekday",
                    models.PositiveSmallIntegerField(
                        choices=[
                            (0, "Monday"),
                            (1, "Tuesday"),
                            (2, "Wednesday"),
                            (3, "Thursday"),
                            (4, "Friday"),
                            (5, "Saturday"),
                            (6, "Sunday"),
                        ],
                        default=0,
                        verbose_name="on",
                    ),
                ),
                (
                    "hour",
                    models.PositiveSmallIntegerField(
                        default=8,
                        validators=[django.core.validators.MaxValueValidator(23)],
                        verbose_name="at",
                    ),
                ),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                ("is_enabled", models.BooleanField(default=True, verbose_name="enabled")),
                ("unsubscribed_at", models.DateTimeField(editable=False, null=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
                (
                    "destination",
                    models.ForeignKey(
                        on_delete=CASCADE,
                        related_name="digests",
                        to="notifications.destination",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "product",
                    models.ForeignKey(
                        on_delete=CASCADE, related_name="digests", to="engagement.product"
                    ),
                ),
                (
                    "segment",
                    models.ForeignKey(
                        null=True,
                        on_delete=CASCADE,
                        related_name="digests",
                        to="engagement.segment",
                    ),
                ),
                (
                    "view",
                    models.ForeignKey(
                        null=True,
                        on_delete=CASCADE,
                        related_name="digests",
                        to="engagement.savedview",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(on_delete=CASCADE, to="engagement.workspace"),
                ),
            ],
            options={
                "ordering": ["product_id", "id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("cadence__in", ["week", "day"])),
                        name="digest_cadence_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("hour__lte", 23), ("weekday__lte", 6)),
                        name="digest_time_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("segment", None), ("view", None), _connector="OR"),
                        name="digest_of_one_thing",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DigestIssue",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "digest_id",
                        "cadence",
                        "day",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("cadence", models.CharField(max_length=4)),
                ("day", models.DateField()),
                ("message_id", models.CharField(blank=True, max_length=40)),
                ("issued_at", models.DateTimeField()),
                (
                    "digest",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=CASCADE,
                        related_name="issues",
                        to="notifications.digest",
                    ),
                ),
            ],
        ),
    ]
