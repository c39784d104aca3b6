from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('engagement', '0046_habit_parts'),
    ]

    operations = [
        migrations.AddField(
            model_name='product',
            name='has_site_users',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='product',
            name='licensed_for',
            field=models.CharField(choices=[('app', 'Users of the app'), ('host', 'Users of the host product'), ('site', 'A site counts as one user')], db_default='host', default='host', max_length=10),
        ),
        migrations.AddField(
            model_name='scoreset',
            name='seats',
            field=models.CharField(choices=[('app', 'Users of the app'), ('host', 'Users of the host product'), ('site', 'A site counts as one user')], db_default='host', default='host', max_length=10),
        ),
    ]
