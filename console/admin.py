"""The admin: Django's, limited to the products that a login may see."""

from django.contrib import admin

from access.admin import products, trail
from access.admin.login import LoginForm
from access.admin.superuser_only import restrict_to_superusers
from console import segments
from console.subjects import subjects
from console.workspaces import feature_pages, workspaces

__all__ = ["feature_pages", "products", "segments", "subjects", "trail", "workspaces"]

admin.site.site_header = "Engagement Data Service"
admin.site.site_title = "Engagement Data Service"
admin.site.index_title = "Overview"
# There is no site outside the admin to link to.
admin.site.site_url = None
# Lists have many columns and need the space.
admin.site.enable_nav_sidebar = False
admin.site.login_form = LoginForm
restrict_to_superusers()
