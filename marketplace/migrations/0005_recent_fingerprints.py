"""A noun for the field. The column keeps its name: code of the last release runs on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("marketplace", "0004_names")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("syncrun", "recent", "recent_fingerprints"),
                migrations.AlterField(
                    "syncrun",
                    "recent_fingerprints",
                    models.JSONField(db_column="recent", default=list),
                ),
            ],
        )
    ]
