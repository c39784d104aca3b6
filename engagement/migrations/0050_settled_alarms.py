from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("engagement", "0049_complete_days"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="alarm",
            index=models.Index(
                condition=models.Q(("outcome", "settled")),
                fields=["product", "workspace_id", "signal", "level", "since"],
                name="alarm_settled",
            ),
        ),
    ]
