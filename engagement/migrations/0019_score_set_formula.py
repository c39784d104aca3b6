from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', '0018_event_name_done_by'),
    ]

    operations = [
        migrations.AddField(
            model_name='scoreset',
            name='formula',
            field=models.PositiveSmallIntegerField(db_default=0, default=1),
        ),
    ]
