"""Logins: ``root`` is a superuser, ``member`` manages Acme, ``reader`` views Acme."""

import pytest
from django.contrib.auth.models import Permission
from django.contrib.auth.models import User as AdminUser
from django.test import Client

from engagement.models import Product, ProductMember
from tests.admin.rows import Rows, fill


@pytest.fixture
def acme_rows(acme: Product) -> Rows:
    return fill(acme, 1)


@pytest.fixture
def globex_rows(globex: Product) -> Rows:
    return fill(globex, 2)


@pytest.fixture
def root(db: None) -> Client:
    return logged_in(AdminUser.objects.create_superuser("root"))


@pytest.fixture
def member(acme: Product) -> Client:
    """A manager of Acme with all of Django's permissions."""
    maya = AdminUser.objects.create_user("maya", is_staff=True)
    maya.user_permissions.set(Permission.objects.all())
    ProductMember.objects.create(product=acme, user=maya, role=ProductMember.Role.MANAGER)
    return logged_in(maya)


@pytest.fixture
def reader(acme: Product) -> Client:
    """A viewer of Acme with all of Django's permissions except the one to add products."""
    ray = AdminUser.objects.create_user("ray", is_staff=True)
    ray.user_permissions.set(Permission.objects.exclude(codename="add_product"))
    ProductMember.objects.create(product=acme, user=ray, role=ProductMember.Role.VIEWER)
    return logged_in(ray)


def logged_in(person: AdminUser) -> Client:
    client = Client()
    client.force_login(person)
    return client
