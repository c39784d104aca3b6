
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', '0013_tallies'),
    ]

    operations = [
        migrations.AlterField(
            model_name='productmember',
            name='role',
            field=models.CharField(choices=[('viewer', 'Viewer'), ('manager', 'Manager')], db_default='viewer', default='viewer', help_text='A viewer sees everything but secrets and changes nothing; a manager does both.', max_length=10),
        ),
    ]
