"""New names for fields. Columns keep theirs: code of the last release runs on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("marketplace", "0003_lists_in_use")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("syncrun", "put_downs", "backoff_count"),
                migrations.AlterField(
                    "syncrun",
                    "backoff_count",
                    models.PositiveSmallIntegerField(db_column="put_downs", default=0),
                ),
                migrations.RenameField("syncrun", "stumbles", "crash_count"),
                migrations.AlterField(
                    "syncrun",
                    "crash_count",
                    models.PositiveSmallIntegerField(db_column="stumbles", default=0),
                ),
            ],
        )
    ]
