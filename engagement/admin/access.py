"""Logins, groups and the schedule concern the whole service: they are for superusers only."""

from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.auth.models import User as AdminUser
from django.db.models import Model
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)

from engagement.admin.scoping import SuperusersOnly

WHOLE_SERVICE: list[type[Model]] = [
    AdminUser,
    Group,
    PeriodicTask,
    IntervalSchedule,
    CrontabSchedule,
    SolarSchedule,
    ClockedSchedule,
]


def close_to_members() -> None:
    """Register each of these models again, with the admin it has, for superusers only."""
    for model in WHOLE_SERVICE:
        ordinary = type(admin.site.get_model_admin(model))
        admin.site.unregister(model)
        closed = type(f"Closed{ordinary.__name__}", (SuperusersOnly, ordinary), {})
        admin.site.register(model, closed)
