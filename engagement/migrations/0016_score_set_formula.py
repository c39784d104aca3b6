from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', '0015_weights_from_0'),
    ]

    operations = [
        migrations.AddField(
            model_name='scoreset',
            name='formula',
            field=models.PositiveSmallIntegerField(db_default=0, default=1),
        ),
    ]
