"""The service's admin: Django's own, scoped to the products that a person may see."""

from django.contrib import admin

from engagement.admin import products, segments, subjects, workspaces
from engagement.admin.login import LoginForm
from engagement.admin.superuser_only import restrict_to_superusers

__all__ = ["products", "segments", "subjects", "workspaces"]

admin.site.site_header = "Engagement Data Service"
admin.site.site_title = "Engagement Data Service"
admin.site.index_title = "Overview"
# There is no page but the admin's own.
admin.site.site_url = None
# The lists have many columns and need its room.
admin.site.enable_nav_sidebar = False
admin.site.login_form = LoginForm
restrict_to_superusers()
