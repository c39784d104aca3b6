from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("engagement", "0050_settled_alarms")]

    operations = [
        migrations.AddField("accountengagement", "settled_before", models.DateField(null=True)),
        migrations.AddField("userengagement", "settled_before", models.DateField(null=True)),
        migrations.AddField("scoreset", "reference_day", models.DateField(null=True)),
        migrations.AddField(
            "scoreset", "half_life_days", models.PositiveSmallIntegerField(null=True)
        ),
        migrations.AddField(
            "workspace",
            "half_life_days",
            models.PositiveSmallIntegerField(
                blank=True,
                null=True,
                validators=[MinValueValidator(7), MaxValueValidator(180)],
                verbose_name="half-life in days",
            ),
        ),
        migrations.AddConstraint(
            "workspace",
            models.CheckConstraint(
                condition=Q(half_life_days=None)
                | Q(half_life_days__range=(7, 180), lookback_days=30),
                name="workspace_half_life_allowed",
            ),
        ),
    ]
