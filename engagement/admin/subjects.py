"""Users and accounts: what is known of them and how they score. Nothing here can be changed."""

import json
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import F, FilteredRelation, Q, QuerySet, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Left, Lower
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from engagement.admin import subject_pages
from engagement.admin.forgetting import ForgettableAdmin
from engagement.admin.scoping import ProductFilter, visible_products
from engagement.admission import Scope
from engagement.models import Account, ScoreSet, User
from engagement.models.subjects import INDEXED_TEXT_LENGTH, Subject
from engagement.scoring import score

USERS_SHOWN = 50


def scored(raw: int | None, benchmark: float | None) -> str:
    """The score with one decimal, as people read it."""
    return "–" if raw is None else f"{score(raw, benchmark):.1f}"


def readable_traits(subject: Subject) -> list[tuple[str, str]]:
    """Names and values in the order of the names; what is no text is written as JSON."""
    return [
        (name, value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))
        for name, value in sorted(subject.traits.items())
    ]


class SubjectAdmin(ForgettableAdmin):
    """What the pages of users and of accounts have in common.

    Lists are in the order of the primary key, newest first, and a search looks only into indexes:
    external ids by their beginning, one trait as a whole.
    """

    change_form_template = "admin/engagement/subject.html"
    list_filter = [("product", ProductFilter)]
    list_select_related = ["product"]
    ordering = ["-id"]
    # Shows the search box; get_search_results does the work.
    search_fields = ["external_id"]
    search_trait: ClassVar[str]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request).filter(is_identified=True)
        return rows.defer("trait_stamps")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        # The products are part of both indexes, so they are named even where all are meant.
        products = list(visible_products(request.user).values_list("pk", flat=True))
        trait = KeyTextTransform(self.search_trait, "traits")
        found = queryset.alias(trait=Lower(Left(trait, INDEXED_TEXT_LENGTH))).filter(
            Q(external_id__startswith=term) | Q(trait=Lower(Value(term[:INDEXED_TEXT_LENGTH]))),
            product__in=products,
        )
        return found, False

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        workspaces = subject_pages.workspaces(obj.product_id)
        workspace = subject_pages.chosen(workspaces, request.GET.get("workspace"))
        return {
            "traits": readable_traits(obj),
            "workspaces": workspaces,
            "workspace": workspace,
            "numbers": workspace and subject_pages.numbers(workspace, obj),
        }


@admin.register(User)
class UserAdmin(SubjectAdmin):
    scope = Scope.USER
    list_display = ["external_id", "shown_name", "shown_email", "account_link", "product"]
    list_display += ["last_seen_at"]
    list_select_related = ["product", "account"]
    fields = ["external_id", "shown_name", "shown_email", "account_link", "product"]
    fields += ["first_seen_at", "last_seen_at"]
    search_help_text = "Search by the beginning of the user id or by the whole e-mail address."
    search_trait = "email"

    @admin.display(description="name")
    def shown_name(self, user: User) -> str | None:
        return user.name

    @admin.display(description="e-mail")
    def shown_email(self, user: User) -> str | None:
        return user.email

    @admin.display(description="account")
    def account_link(self, user: User) -> SafeString | None:
        account = user.account
        if account is None or not account.is_identified:
            return None
        url = reverse("admin:engagement_account_change", args=[account.pk])
        return format_html('<a href="{}">{}</a>', url, account.name or account.external_id)


@admin.register(Account)
class AccountAdmin(SubjectAdmin):
    scope = Scope.ACCOUNT
    list_display = ["external_id", "shown_name", "shown_domain", "product", "last_seen_at"]
    fields = ["external_id", "shown_name", "shown_domain", "product"]
    fields += ["first_seen_at", "last_seen_at"]
    search_help_text = "Search by the beginning of the account id or by the whole domain."
    search_trait = "domain"

    @admin.display(description="name")
    def shown_name(self, account: Account) -> str | None:
        return account.name

    @admin.display(description="domain")
    def shown_domain(self, account: Account) -> str | None:
        return account.domain

    def page_context(self, request: HttpRequest, obj: Account) -> dict[str, Any]:
        context = super().page_context(request, obj)
        workspace = context["workspace"]
        score_set = workspace and workspace.scores
        users = (
            [
                {"user": user, "raw": user.raw, "score": scored(user.raw, score_set.user_benchmark)}
                for user in ranked_users(obj, score_set)
            ]
            if score_set
            else []
        )
        return {**context, "users": users, "users_shown": USERS_SHOWN, "of_account": True}


def ranked_users(account: Account, score_set: ScoreSet) -> QuerySet[Any]:
    """The account's highest users in *score_set*, with their ``raw`` score."""
    return (
        User.objects.filter(product=account.product_id, account=account, is_identified=True)
        .defer("trait_stamps")
        .annotate(
            ranked=FilteredRelation("engagements", condition=Q(engagements__score_set=score_set)),
            raw=F("ranked__raw"),
        )
        .order_by(F("raw").desc(nulls_last=True), "-id")[:USERS_SHOWN]
    )
