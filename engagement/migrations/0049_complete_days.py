from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("engagement", "0048_late_days"),
    ]

    operations = [
        migrations.AlterField(
            model_name="scoreset",
            name="formula_version",
            field=models.PositiveSmallIntegerField(db_column="formula", db_default=0, default=3),
        ),
        migrations.AddField(
            model_name="accountengagement",
            name="raw_yesterday_last_period",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="userengagement",
            name="raw_yesterday_last_period",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="scoreset",
            name="account_benchmark_yesterday_last_period",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="scoreset",
            name="user_benchmark_yesterday_last_period",
            field=models.FloatField(null=True),
        ),
    ]
