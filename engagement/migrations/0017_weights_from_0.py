import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', "0016_reattribution_requests"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='eventweight',
            name='event_weight_in_range',
        ),
        migrations.AlterField(
            model_name='eventweight',
            name='weight',
            field=models.PositiveSmallIntegerField(help_text='1 to 10; 0: this event is not scored.', validators=[django.core.validators.MaxValueValidator(10)]),
        ),
        migrations.AlterField(
            model_name='workspace',
            name='default_weight',
            field=models.PositiveSmallIntegerField(default=1, help_text='Weight of all other events, 0 to 10. 0 scores only the events listed below.', validators=[django.core.validators.MaxValueValidator(10)]),
        ),
        migrations.AddConstraint(
            model_name='eventweight',
            constraint=models.CheckConstraint(condition=models.Q(('weight__range', (0, 10))), name='event_weight_0_to_10'),
        ),
    ]
