from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("engagement", "0017_weights_from_0"),
    ]

    operations = [
        # In two steps: rows that are there already get NULL, which says that nobody has looked yet.
        migrations.AddField(
            model_name="eventname",
            name="done_by",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="eventname",
            name="done_by",
            field=models.BigIntegerField(db_default=0, null=True),
        ),
        migrations.AddIndex(
            model_name="eventname",
            index=models.Index(
                condition=models.Q(("done_by", 0)), fields=["product"], name="event_name_not_done"
            ),
        ),
    ]
