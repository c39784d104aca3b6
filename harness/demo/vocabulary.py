"""The vocabulary of synthetic data: products and their events, companies, and people."""

import unicodedata
from typing import Any, NamedTuple, TypeAlias

from engagement.metric_names import Scope


class Feature(NamedTuple):
    """An event of a product, with its weight and the share of people who do it at all.

    ``daily_uses`` is the mean number of times beyond the first on a day with the event.
    """

    event: str
    weight: int
    share: float
    daily_uses: float


class Catalog(NamedTuple):
    """A product and its events, some of them in named groups. Every active user does the first
    one."""

    name: str
    features: tuple[Feature, ...]
    groups: dict[str, tuple[str, ...]]


BOARDS = Catalog(
    "Board Lens",
    (
        Feature("Board_Viewed", 1, 1.0, 4.0),
        Feature("Card_Moved", 2, 0.8, 3.0),
        Feature("Card_Created", 4, 0.6, 1.5),
        Feature("Comment_Added", 4, 0.5, 1.2),
        Feature("Filter_Applied", 2, 0.4, 1.5),
        Feature("Report_Created", 3, 0.3, 0.6),
        Feature("Swimlane_Changed", 3, 0.15, 0.4),
        Feature("Board_Created", 8, 0.1, 0.1),
        Feature("Report_Exported", 6, 0.1, 0.3),
        Feature("Automation_Run", 7, 0.08, 2.0),
        Feature("Member_Invited", 10, 0.05, 0.4),
        Feature("Integration_Enabled", 5, 0.05, 0.3),
    ),
    {
        "Boards": ("Board_Viewed", "Board_Created", "Swimlane_Changed"),
        "Cards": ("Card_Created", "Card_Moved"),
        "Collaboration": ("Comment_Added", "Member_Invited"),
        "Filters": ("Filter_Applied",),
        "Reports": ("Report_Created", "Report_Exported"),
        "Automation": ("Automation_Run",),
        "Integrations": ("Integration_Enabled",),
    },
)
INVOICES = Catalog(
    "Ledgerly",
    (
        Feature("Dashboard_Viewed", 1, 1.0, 2.0),
        Feature("Invoice_Opened", 2, 0.8, 3.0),
        Feature("Invoice_Sent", 6, 0.5, 1.5),
        Feature("Payment_Matched", 7, 0.4, 2.0),
        Feature("Expense_Recorded", 4, 0.4, 1.5),
        Feature("Reminder_Sent", 4, 0.2, 0.8),
        Feature("Report_Exported", 6, 0.15, 0.2),
        Feature("Integration_Enabled", 10, 0.04, 0.0),
        Feature("Accountant_Invited", 9, 0.03, 0.0),
    ),
    {
        "Invoicing": ("Invoice_Opened", "Invoice_Sent", "Reminder_Sent"),
        "Bookkeeping": ("Payment_Matched", "Expense_Recorded"),
        "Reports": ("Report_Exported",),
        "Sharing": ("Integration_Enabled", "Accountant_Invited"),
    },
)
NOTES = Catalog(
    "Fieldnote",
    (
        Feature("Note_Viewed", 1, 1.0, 3.0),
        Feature("Note_Written", 5, 0.7, 1.5),
        Feature("Photo_Attached", 4, 0.5, 2.0),
        Feature("Note_Shared", 7, 0.3, 0.7),
        Feature("Search_Used", 2, 0.4, 1.5),
        Feature("Template_Used", 6, 0.15, 0.5),
        Feature("Checklist_Completed", 6, 0.25, 0.8),
        Feature("Site_Visited", 8, 0.2, 0.2),
        Feature("Colleague_Invited", 10, 0.04, 0.3),
    ),
    {
        "Notes": ("Note_Viewed", "Note_Written", "Template_Used"),
        "Site visits": ("Photo_Attached", "Checklist_Completed", "Site_Visited"),
        "Sharing": ("Note_Shared", "Colleague_Invited"),
        "Search": ("Search_Used",),
    },
)


class Company(NamedTuple):
    """A customer. ``external_id`` is what the product calls it; ``hours`` is its clock's distance
    from UTC."""

    external_id: str
    name: str
    domain: str
    country: str
    hours: int


_FIRST_WORDS = """
Alder Anchor Aspen Atlas Beacon Birch Blue Bright Brook Canyon Cedar Cinder Clear Cobalt Copper
Coral Crown Dawn Delta Drift Dune East Ember Falcon Fern First Flint Forge Frost Garnet Glade
Golden Granite Green Grove Harbour Haven Hazel Heron High Hollow Iron Ivory Jasper Juniper
Keystone Kite Lantern Laurel Linden Lunar Maple Marble Meadow Mercury Mill Mint Mossy Noble
North Oak Ocean Olive Onyx Opal Orchard Otter Pearl Pine Pioneer Polar Prairie Quartz Quill
Rapid Raven Red Ridge River Rowan Saffron Sage Sierra Silver Slate Solar South Spruce Sterling
Stone Summit Swift Tall Teal Terra Thistle Tidal Timber True Tulip Union Upland Valley Velvet
Vista Walnut West Willow Winter Wren Yarrow
"""
_SECOND_WORDS = """
Advisors Airways Analytics Bank Biotech Brewing Builders Capital Care Chemicals Clinics Cloud
Coffee Consulting Courier Dairy Data Dental Design Devices Diagnostics Education Electric Energy
Engineering Estates Events Farms Films Finance Foods Freight Furniture Games Gardens Glass Goods
Health Homes Hotels Insurance Interiors Labs Legal Lighting Logistics Marine Markets Media
Metals Mobility Motors Music Networks Optics Outdoor Paper Partners Pharma Plastics Power Press
Printing Rail Recruiting Retail Robotics Schools Security Shipping Software Solar Sports Steel
Storage Studios Systems Telecom Textiles Tools Toys Trading Travel Ventures Water Wines Works
"""
FIRST_WORDS, SECOND_WORDS = _FIRST_WORDS.split(), _SECOND_WORDS.split()
_COUNTRIES = (
    ("United States", -6),
    ("Germany", 1),
    ("United Kingdom", 0),
    ("France", 1),
    ("Canada", -5),
    ("Netherlands", 1),
    ("Australia", 10),
    ("India", 5),
    ("Sweden", 1),
    ("Brazil", -3),
    ("Japan", 9),
    ("Spain", 1),
)
# Coprime to the number of names, so that neighbors in the list are not alike.
_STRIDE = 7919


def company(number: int) -> Company:
    """The customer with this number, from 0. Names and domains are unique."""
    names = len(FIRST_WORDS) * len(SECOND_WORDS)
    place, generation = number * _STRIDE % names, number // names
    name = f"{FIRST_WORDS[place % len(FIRST_WORDS)]} {SECOND_WORDS[place // len(FIRST_WORDS)]}"
    if generation:
        name = f"{name} {generation + 1}"
    country, hours = _COUNTRIES[number * 5 % 13 % len(_COUNTRIES)]
    return Company(
        f"org-{number + 1:06d}", name, f"{name.lower().replace(' ', '-')}.example", country, hours
    )


INDUSTRIES = (
    "Software",
    "Manufacturing",
    "Finance",
    "Retail",
    "Healthcare",
    "Education",
    "Media",
    "Logistics",
    "Public sector",
    "Energy",
)
# The smallest number of users on each plan.
PLANS = ((200, "Enterprise"), (25, "Premium"), (5, "Standard"), (0, "Free"))
# Per user and month, in cents.
PRICES = {"Enterprise": 12_50, "Premium": 9_75, "Standard": 5_50, "Free": 0}

_GIVEN = """
Ada Adam Aisha Akira Alice Amara Ana Anders André Anna Arjun Astrid Aylin Beatriz Ben Bruno
Carlos Carmen Chen Chloé Clara Daan Daniel David Diego Elena Elif Emil Emma Erik Esther Eva
Fatima Felix Fiona Frida Gabriel George Grace Hana Hannah Hugo Ibrahim Ida Ines Ingrid Isaac
Ivan Jack James Jana Jin José Julia Kai Karim Katya Kenji Lars Laura Lea Leila Leo Lin Linnéa
Lucas Lucía Malik Marco Maria Marta Mateo Maya Mei Mia Mikko Milan Mina Mohammed Nadia Naomi
Nils Nina Noah Noor Nora Olga Oliver Omar Oscar Paula Pedro Peter Petra Priya Rafael Raj Rosa
Ruth Samir Sanna Sara Sean Sofia Stefan Sven Tara Theo Thomas Tom Uma Valeria Vera Victor Wanda
Wei Yara Yuki Yusuf Zoë
"""
_FAMILY = """
Abe Ahmed Ali Almeida Andersson Bakker Banerjee Bauer Becker Bell Berg Bianchi Blanc Brown
Carlsen Castro Chen Clark Cohen Costa Cruz Das Davies Diaz Dubois Eriksson Evans Fernández
Fischer Foster Fuchs García Ghosh Gill Gómez Green Gupta Haas Hall Hansen Hernández Hoffmann
Holm Huang Ito Ivanov Jackson Jain Jansen Jensen Johansson Jones Joshi Kaya Keller Khan Kim King
Klein Koch Kowalski Kumar Lange Larsen Lee Lehmann Lewis Li Lima Lind Liu López Maier Martin
Martínez Mehta Meyer Mills Mori Moreau Müller Murphy Nakamura Nguyen Nielsen Novak Okafor Olsen
Omar Ortiz Park Patel Pereira Peters Petrov Price Ramos Rao Reid Rossi Ruiz Sato Schmidt
Schneider Shah Sharma Silva Singh Smith Sousa Suzuki Tanaka Taylor Torres Tran Turner Vargas
Vogel Wagner Walker Wang Weber White Wilson Wolf Wong Wood Wright Yamamoto Yang Yilmaz Young
Zhang Zimmermann
"""
ROLES = ("admin", "member", "member", "member", "member", "member", "viewer", "viewer")
LANGUAGES = ("en", "en", "en", "de", "fr", "es", "pt", "ja")


def _plain(name: str) -> str:
    """The name as part of an email address."""
    decomposed = unicodedata.normalize("NFKD", name)
    return decomposed.encode("ascii", "ignore").decode().lower()


GIVEN_NAMES = [(name, _plain(name)) for name in _GIVEN.split()]
FAMILY_NAMES = [(name, _plain(name)) for name in _FAMILY.split()]

# Custom segments that a customer-success team might add.
SegmentOf: TypeAlias = tuple[Scope, str, list[dict[str, Any]]]
SEGMENTS: tuple[SegmentOf, ...] = (
    (
        "account",
        "Paid plans losing interest",
        [
            {"kind": "trait", "trait": "plan", "operator": "is_not", "value": "Free"},
            {
                "kind": "metric",
                "metric": "score_change_complete_days",
                "operator": "at_most",
                "value": -5,
            },
        ],
    ),
    (
        "user",
        "Admins away for a week",
        [
            {"kind": "trait", "trait": "role", "operator": "is", "value": "admin"},
            {"kind": "last_active", "operator": "more_than_days_ago", "days": 7},
        ],
    ),
)
# Of the product with licenses.
LICENSE_SEGMENTS: tuple[SegmentOf, ...] = (
    (
        "account",
        "Evaluating",
        [
            {
                "kind": "trait",
                "trait": "am.licenseType",
                "operator": "is",
                "value": "EVALUATION",
            },
        ],
    ),
)
# Shared views of the accounts, with their filters and order.
# Those of which most is at stake first.
VIEWS: dict[str, tuple[dict[str, str], str]] = {
    "Falling": ({"activity": "falling"}, "-mrr"),
    "Stopped": ({"activity": "stopped"}, "-mrr"),
}
LICENSE_VIEWS: dict[str, tuple[dict[str, str], str]] = {
    "Renewals at risk": ({"insight": "renewal_at_risk"}, "renewal")
}
