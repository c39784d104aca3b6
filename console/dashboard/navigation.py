"""The side bar, the switchers of product and workspace, and the breadcrumbs of each admin page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from access.admin.superuser_only import shown_login
from access.pages.place import PRODUCT_PARAMS, WORKSPACE_PARAMS, Place, find_place
from access.pages.scoping import request_access, sees_all_products, visible_products
from access.pages.subject_urls import WORKSPACE_PARAM
from console.dashboard import sections
from engagement.models import Product, Workspace
from marketplace.models import Connection, Ledger

# The switcher lists as many products, and links to the list of all of them.
MAX_PRODUCTS = 30
TRENDS, ALARMS = "engagement_workspace_trends", "engagement_workspace_alarms"

# Parameters of a list that are no filters: search, page, order, all rows on one page, invalid ones.
_NO_FILTERS = {"q", "p", "o", "all", "e", "_changelist_filters"}


@dataclass(frozen=True)
class Item:
    """A link. ``current`` is the value of ``aria-current``: page, true, or empty. ``icon`` is a
    symbol of icons.svg."""

    label: str
    url: str
    current: str = ""
    items: Sequence["Item"] = ()
    icon: str = ""


@dataclass(frozen=True)
class Navigation:
    product: Product | None = None
    workspace: Workspace | None = None
    products: Sequence[Item] = ()
    more_products: str = ""
    workspaces: Sequence[Item] = ()
    workspaces_url: str = ""
    items: Sequence[Item] = ()
    service: Sequence[Item] = ()
    crumbs: Sequence[Item] = ()
    # The page's list without a search and filters, but in the same product and workspace.
    list_url: str = ""
    is_filtered: bool = False


def build_navigation(request: HttpRequest) -> Navigation:
    """The navigation of the page that the request is for."""
    match = request.resolver_match
    return _Builder(request, (match and match.url_name) or "").build()


class _Builder:
    def __init__(self, request: HttpRequest, url_name: str) -> None:
        self.request, self.url_name = request, url_name
        self.place: Place = find_place(request)
        self.model, self.view = sections.split_url_name(url_name)
        self.section = sections.SECTIONS.get(self.model, "")
        # Only a product with a license ledger has a page of licenses.
        ledgers = Ledger.objects.filter(product=OuterRef("pk"))
        visible = visible_products(request.user).annotate(has_ledger=Exists(ledgers))
        candidates = list(visible[: MAX_PRODUCTS + 1])
        self.has_more = len(candidates) > MAX_PRODUCTS
        self.products = candidates[:MAX_PRODUCTS]
        self.product = self._find_product(visible)
        ids = {product.pk for product in (*self.products, self.product) if product}
        self.workspaces: dict[int, list[Workspace]] = {}
        rows = Workspace.objects.filter(product__in=ids).only("name", "product_id")
        for workspace in rows.order_by("id"):
            self.workspaces.setdefault(workspace.product_id, []).append(workspace)
        self.workspace = self._find_workspace()

    def build(self) -> Navigation:
        product = self.product
        return Navigation(
            product=product,
            workspace=self.workspace,
            products=[
                Item(other.name, self._product_url(other), "true" if other == product else "")
                for other in self.products
            ],
            more_products=_url("engagement_product_changelist") if self.has_more else "",
            workspaces=[
                Item(other.name, self._workspace_url(other), _mark(other == self.workspace, "true"))
                for other in (self.workspaces.get(product.pk, ()) if product else ())
            ],
            workspaces_url=_with(
                _url("engagement_workspace_changelist"), product__id__exact=product.pk
            )
            if product
            else "",
            items=list(self._items(product)) if product else (),
            service=list(self._service_items()),
            crumbs=list(self._crumbs()),
            list_url=_with(self.request.path, **self._place_query()),
            is_filtered=bool(
                set(self.request.GET) - _NO_FILTERS - set(PRODUCT_PARAMS) - set(WORKSPACE_PARAMS)
            ),
        )

    def _place_query(self) -> dict[str, str]:
        """The parameters of the address that name the product and the workspace."""
        query = self.request.GET
        return {name: query[name] for name in (*PRODUCT_PARAMS, *WORKSPACE_PARAMS) if name in query}

    # --- Where the page is --------------------------------------------------------------------

    def _find_product(self, visible: Any) -> Product | None:
        """The page's product, or the only one there is."""
        if self.place.product_id is None:
            return self.products[0] if len(self.products) == 1 else None
        by_id = {product.pk: product for product in self.products}
        listed_product: Product | None = by_id.get(self.place.product_id)
        return listed_product or visible.filter(pk=self.place.product_id).first()

    def _find_workspace(self) -> Workspace | None:
        """The workspace in the address, or the product's first one."""
        if self.product is None:
            return None
        workspaces = self.workspaces.get(self.product.pk, [])
        matches = [row for row in workspaces if row.pk == self.place.workspace_id]
        return next(iter(matches or workspaces), None)

    # --- The side bar -------------------------------------------------------------------------

    def _items(self, product: Product) -> Iterator[Item]:
        for section, label in sections.LABELS.items():
            url = self._section_url(section, product, self.workspace)
            if not url:
                continue
            is_here = section == self.section
            # The section's own page, or one below it.
            current = _mark(is_here, "page" if self._is_root(product) else "true")
            children = self._children(section, product, url)
            yield Item(label, url, current, list(children) if is_here else (), section)

    def _is_root(self, product: Product) -> bool:
        if self.model in ("engagement_workspace", "engagement_product", "ingestion_ingestionlog"):
            return self.view == "change"
        if self.view in ("index", "licenses", TRENDS):
            return "type" not in self.request.GET
        is_list = self.model in sections.ROOTS and self.view == "changelist"
        return is_list and "owner" not in self.request.GET

    def _children(self, section: str, product: Product, url: str) -> Iterator[Item]:
        if section == "accounts" and self.workspace:
            own = self.request.user.get_username()
            page = _with(url, owner=own)
            is_here = self.request.GET.get("owner") == own
            yield Item("My accounts", page, _mark(is_here, "page"))
            page = _url(ALARMS, self.workspace.pk)
            yield Item("Alarms", page, _mark(self.model == ALARMS, "page"))
        elif section == "settings":
            yield from self._settings_items(product, url)
        elif section == "events" and self.workspace:
            for view in ("backtest", "chances", "forecast", "cohorts", "activation"):
                page = _url(f"engagement_workspace_{view}", self.workspace.pk)
                yield Item(self._step(view), page, _mark(self.view == view, "page"))
            features = _with(_url("engagement_feature_changelist"), product__id__exact=product.pk)
            yield Item("Features", features, _mark(self.model == "engagement_feature", "true"))
        elif section in sections.SECTION_LISTS:
            for model in sections.SECTION_LISTS[section]:
                page = _with(_url(f"{model}_changelist"), product__id__exact=product.pk)
                current = "page" if self.view == "changelist" else "true"
                yield Item(sections.LIST_LABELS[model], page, _mark(self.model == model, current))

    def _settings_items(self, product: Product, url: str) -> Iterator[Item]:
        for label, anchor, model in (
            ("Ingestion keys", "ingestion_keys-group", "ingestion_ingestionkey"),
            ("Forget keys", "forget_keys-group", "ingestion_forgetkey"),
            ("Read tokens", "read_tokens-group", "readapi_apitoken"),
            ("Members", "productmember_set-group", ""),
        ):
            yield Item(label, f"{url}#{anchor}", _mark(self.model == model, "true"))
        connection = Connection.objects.filter(product=product.pk).only("pk").first()
        current = _mark(self.model == "marketplace_connection", "true")
        if connection:
            page = _url("marketplace_connection_change", connection.pk)
            yield Item("Marketplace", page, current)
        elif product.pk in request_access(self.request).connectable:
            page = _with(_url("marketplace_connection_add"), product=product.pk)
            yield Item("Marketplace", page, current)
        if product.pk in request_access(self.request).managed:
            page = _with(_url("engagement_trailentry_changelist"), product__id__exact=product.pk)
            yield Item("Trail", page, _mark(self.model == "engagement_trailentry", "page"))

    def _service_items(self) -> Iterator[Item]:
        """Pages of no product. Most are for superusers only."""
        if len(self.products) > 1:
            is_here = self.url_name == "index" and self.product is None
            yield Item("All products", _url("index"), _mark(is_here, "page"), icon="products")
        if not sees_all_products(self.request.user):
            return
        for label, name, start, icon in (
            ("Logins", "auth_user_changelist", "auth_user", "logins"),
            ("Trail", "engagement_trailentry_changelist", "engagement_trailentry", "trail"),
            ("Background jobs", "jobs", "jobs", "jobs"),
            (
                *("Unknown senders", "ingestion_ingestionlog_changelist"),
                *("ingestion_ingestionlog", "senders"),
            ),
        ):
            # The pages of a product are marked in its own part of the side bar.
            is_here = self.model == start and self.view != "change" and self.product is None
            yield Item(label, _url(name), _mark(is_here, "page"), icon=icon)

    def _section_url(self, section: str, product: Product, workspace: Workspace | None) -> str:
        """The URL of a section's page, or empty if it needs a workspace and there is none."""
        if section in ("accounts", "users"):
            page = _url(f"engagement_{section.removesuffix('s')}_changelist")
            return (
                _with(page, **{WORKSPACE_PARAM: workspace.pk})
                if workspace
                else _with(page, product__id__exact=product.pk)
            )
        if section == "trends":
            return _url(TRENDS, workspace.pk) if workspace else ""
        if section == "segments":
            page = _url("engagement_segment_changelist")
            return _with(page, workspace__id__exact=workspace.pk) if workspace else ""
        if section == "licenses":
            has_page = getattr(product, "has_ledger", False)
            return _with(_url("licenses"), product=product.pk) if has_page else ""
        if section == "events":
            if workspace:
                return _url("engagement_workspace_change", workspace.pk)
            may_add = product.pk in request_access(self.request).managed
            add_url = _with(_url("engagement_workspace_add"), product=product.pk)
            return add_url if may_add else ""
        if section == "overview":
            query = {WORKSPACE_PARAM: workspace.pk} if workspace else {"product": product.pk}
            return _with(_url("index"), **query)
        if section in sections.FIRST_LISTS:
            page = _url(f"{sections.FIRST_LISTS[section]}_changelist")
            return _with(page, product__id__exact=product.pk)
        name = "ingestion_ingestionlog" if section == "ingestion" else "engagement_product"
        page = _url(f"{name}_change", product.pk)
        # The first workspace is where a page opens anyway.
        first = next(iter(self.workspaces.get(product.pk, ())), None)
        return page if workspace in (None, first) else _with(page, workspace=workspace.pk)

    # --- The switchers ------------------------------------------------------------------------

    def _product_url(self, product: Product) -> str:
        """The page of the same section in another product."""
        first = next(iter(self.workspaces.get(product.pk, ())), None)
        section = self.section or "overview"
        return self._section_url(section, product, first) or _with(
            _url("index"), product=product.pk
        )

    def _workspace_url(self, workspace: Workspace) -> str:
        """The same page in another workspace, where it shows scores of one."""
        assert self.product is not None
        if self.view == "change" and self.model in ("engagement_account", "engagement_user"):
            return _with(self.request.path, **{WORKSPACE_PARAM: workspace.pk})
        return self._section_url(self.section or "overview", self.product, workspace)

    # --- Breadcrumbs --------------------------------------------------------------------------

    def _crumbs(self) -> Iterator[Item]:
        """The steps to the page. The last one is the page itself."""
        steps = list(self._steps())
        if steps:
            yield Item("Home", _url("index"))
            yield from steps[:-1]
            yield Item(steps[-1].label, "", "page")

    def _steps(self) -> Iterator[Item]:
        product = self.product
        if product is not None and (self.section or self.place.product_id is not None):
            yield Item(product.name, self._section_url("overview", product, self.workspace))
        if self.section and self.section != "overview":
            yield from self._section_steps()
        elif self.model == "jobs":
            yield Item("Background jobs", _url("jobs"))
        elif self.model == "auth_user":
            yield Item("Logins", _url("auth_user_changelist"))
            if login := shown_login(self.request):
                yield Item(login.get_username(), _url("auth_user_change", login.pk))
        own = ("", "index", "changelist", "change", "jobs", "licenses", TRENDS, ALARMS)
        if self.view not in own:
            yield Item(self._step(self.view), "")

    def _step(self, view: str) -> str:
        """What a page below a row, or a workspace, is called."""
        if view == "chances" and not getattr(self.product, "has_ledger", False):
            return sections.WITHOUT_LICENSES
        return sections.STEPS.get(view, view.replace("_", " ").capitalize())

    def _section_steps(self) -> Iterator[Item]:
        if self.model in ("licenses", TRENDS, ALARMS):
            url = self.product and self._section_url(self.section, self.product, self.workspace)
            yield Item(self._list_label(), url or "")
            if "type" in self.request.GET:
                yield Item("Events", "")
            return
        list_url = _url(f"{self.model}_changelist")
        is_list = self.view in ("changelist", "add")
        if self.product is None:
            yield Item(self._list_label(), list_url)
            return
        section_url = self._section_url(self.section, self.product, self.workspace)
        if self.model in ("engagement_product", "engagement_workspace") and is_list:
            yield Item(self._list_label(), _with(list_url, product__id__exact=self.product.pk))
            return
        filters = self.request.GET.get("_changelist_filters")
        if filters and self.model in sections.ROOTS:
            section_url = f"{list_url}?{filters}"
        yield Item(sections.LABELS[self.section], section_url)
        if self.model in sections.SUBLISTS:
            yield Item(self._list_label(), _with(list_url, product__id__exact=self.product.pk))
        row, admin = self.place.row, self.place.row_admin
        if row is None or admin is None or isinstance(row, Product | Workspace):
            return
        label = "Marketplace" if isinstance(row, Connection) else _row_name(row)
        yield Item(label, _url(f"{self.model}_change", row.pk))

    def _list_label(self) -> str:
        return sections.LIST_LABELS[self.model]


def _row_name(row: Any) -> str:
    """The name of a row. A segment's text also has its workspace, which the side bar says."""
    return str(getattr(row, "name", None) or row)


def _mark(is_current: bool, value: str) -> str:
    return value if is_current else ""


def _url(name: str, *args: object) -> str:
    return reverse(f"admin:{name}", args=args)


def _with(url: str, **query: str | int) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}" if query else url
