from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("engagement", "0053_account_chances"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="accountengagement",
            index=models.Index(
                models.F("score_set"),
                models.OrderBy(models.F("raw"), descending=True),
                models.OrderBy(models.F("account"), descending=True),
                condition=models.Q(("activity", None), ("activity__gt", 0), _connector="OR"),
                name="account_undecided",
            ),
        ),
    ]
