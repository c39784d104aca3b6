"""New names for models and fields. Tables and columns keep theirs: code of the last release runs on."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("engagement", "0019_score_set_formula")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterModelTable("tally", "engagement_tally"),
                migrations.RenameModel("Tally", "CachedCounts"),
                migrations.AlterField(
                    "cachedcounts",
                    "score_set",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="cached_counts",
                        serialize=False,
                        to="engagement.scoreset",
                    ),
                ),
                migrations.RenameField("cachedcounts", "taken_at", "counted_at"),
                migrations.AlterField(
                    "cachedcounts", "counted_at", models.DateTimeField(db_column="taken_at")
                ),
                migrations.AlterModelTable("stalemark", "engagement_stalemark"),
                migrations.RenameModel("StaleMark", "RescoreRequest"),
                migrations.AlterModelTable("measure", "engagement_measure"),
                migrations.RenameModel("Measure", "OperationCounter"),
                migrations.AlterModelTable("chore", "engagement_chore"),
                migrations.RenameModel("Chore", "DailyJob"),
                migrations.RenameField("scoreset", "scored_names", "scored_event_name_count"),
                migrations.AlterField(
                    "scoreset",
                    "scored_event_name_count",
                    models.IntegerField(db_column="scored_names", default=0),
                ),
                migrations.RenameField(
                    "scoreset", "past_stale_from", "past_benchmarks_stale_from"
                ),
                migrations.AlterField(
                    "scoreset",
                    "past_benchmarks_stale_from",
                    models.DateField(db_column="past_stale_from", null=True),
                ),
                migrations.RenameField("scoreset", "past_at", "past_benchmarks_at"),
                migrations.AlterField(
                    "scoreset",
                    "past_benchmarks_at",
                    models.DateTimeField(db_column="past_at", null=True),
                ),
                migrations.RenameField("scoreset", "past_seconds", "past_benchmarks_seconds"),
                migrations.AlterField(
                    "scoreset",
                    "past_benchmarks_seconds",
                    models.FloatField(db_column="past_seconds", db_default=0.0, default=0.0),
                ),
                migrations.RenameField("scoreset", "tally_stale", "cached_counts_stale"),
                migrations.AlterField(
                    "scoreset",
                    "cached_counts_stale",
                    models.BooleanField(db_column="tally_stale", db_default=True, default=True),
                ),
            ],
        )
    ]
