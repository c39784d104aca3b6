"""A project as ``django-admin startproject`` makes it, with Django REST framework's defaults."""
