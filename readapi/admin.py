"""Read tokens in the admin."""

from django.contrib import admin

from engagement.admin.credentials import CredentialAdmin, CredentialInline
from engagement.admin.products import ProductAdmin
from readapi.models import ApiToken


@admin.register(ApiToken)
class ApiTokenAdmin(CredentialAdmin):
    usage = "Use it in the tools that read this product's scores."


class ApiTokenInline(CredentialInline):
    model = ApiToken


ProductAdmin.add_inline(ApiTokenInline)
