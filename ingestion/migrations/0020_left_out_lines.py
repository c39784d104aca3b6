from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ingestion', '0019_forget_keys'),
    ]

    operations = [
        migrations.AddField(
            model_name='importedfile',
            name='left_out',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
    ]
