"""A new name for a field. Its column keeps the old one: code of the last release runs on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("engagement", "0030_cached_insights")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("scoreset", "formula", "formula_version"),
                migrations.AlterField(
                    "scoreset",
                    "formula_version",
                    models.PositiveSmallIntegerField(
                        db_column="formula", db_default=0, default=2
                    ),
                ),
            ]
        )
    ]
