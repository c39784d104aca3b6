from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("outcomes", "0006_totals_of_chances"),
    ]

    operations = [
        migrations.AddField(
            model_name="licenseoutcome",
            name="earlier_seats",
            field=models.JSONField(null=True),
        ),
        # A revision that is not the ledger's: the outcomes are computed again in the background.
        migrations.RunSQL(
            "UPDATE outcomes_licenserevision SET revision = -1",
            migrations.RunSQL.noop,
        ),
    ]
