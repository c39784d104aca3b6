from django.db import migrations, models

# A new installation has the defaults of its release.
KEEP_RETENTION = """
    INSERT INTO engagement_keptdefault (name, value)
    SELECT 'EDS_EVENT_RETENTION_DAYS', 400 WHERE EXISTS (SELECT FROM engagement_product)
"""


class Migration(migrations.Migration):
    dependencies = [("engagement", "0063_event_keys")]

    operations = [
        migrations.CreateModel(
            name="KeptDefault",
            fields=[
                (
                    "name",
                    models.CharField(max_length=50, primary_key=True, serialize=False),
                ),
                ("value", models.IntegerField()),
            ],
        ),
        migrations.RunSQL(KEEP_RETENTION, migrations.RunSQL.noop),
    ]
