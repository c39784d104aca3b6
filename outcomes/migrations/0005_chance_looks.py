import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', '0053_account_chances'),
        ('outcomes', '0004_foresight'),
    ]

    operations = [
        migrations.AddField(
            model_name='chancemodel',
            name='score_set_id',
            field=models.BigIntegerField(null=True),
        ),
        migrations.CreateModel(
            name='ChanceLook',
            fields=[
                ('workspace', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='engagement.workspace')),
                ('looked_at', models.DateTimeField()),
                ('revision', models.BigIntegerField(null=True)),
                ('score_set_id', models.BigIntegerField()),
            ],
        ),
    ]
