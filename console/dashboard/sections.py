"""The sections of the side bar, their pages and lists, and the labels of these."""

# The section of the side bar that a page belongs to, by the start of its URL name.
SECTIONS = {
    "index": "overview",
    "licenses": "licenses",
    "engagement_workspace_trends": "trends",
    "engagement_workspace_alarms": "accounts",
    "engagement_account": "accounts",
    "engagement_user": "users",
    "engagement_segment": "segments",
    "engagement_workspace": "events",
    "engagement_feature": "events",
    "engagement_eventname": "events",
    "ingestion_ingestionlog": "ingestion",
    "ingestion_quarantinedmessage": "ingestion",
    "ingestion_droppedmessage": "ingestion",
    "ingestion_inboxmessage": "ingestion",
    "ingestion_dropcount": "ingestion",
    "notifications_subscription": "notifications",
    "notifications_digest": "notifications",
    "notifications_destination": "notifications",
    "notifications_outboxmessage": "notifications",
    "exports_scheduledexport": "exports",
    "exports_exportrun": "exports",
    "destinations_recorddestination": "crm",
    "destinations_recordrun": "crm",
    "engagement_product": "settings",
    "ingestion_ingestionkey": "settings",
    "ingestion_forgetkey": "settings",
    "readapi_apitoken": "settings",
    "engagement_trailentry": "settings",
    "marketplace_connection": "settings",
}
LABELS = {
    "overview": "Overview",
    "trends": "Trends",
    "accounts": "Accounts",
    "users": "Users",
    "segments": "Segments",
    "licenses": "Licenses",
    "events": "Events and weights",
    "ingestion": "Ingestion",
    "notifications": "Notifications",
    "exports": "Exports",
    "crm": "CRM",
    "settings": "Settings",
}
# The lists and pages that a section's own link opens. They are no further step of the breadcrumbs.
ROOTS = {
    "engagement_account",
    "engagement_user",
    "engagement_segment",
    "ingestion_ingestionlog",
    "notifications_subscription",
    "exports_scheduledexport",
    "destinations_recorddestination",
}
# The list that the link of a section opens.
FIRST_LISTS = {
    "notifications": "notifications_subscription",
    "exports": "exports_scheduledexport",
    "crm": "destinations_recorddestination",
}
# Lists below a section in the side bar.
SECTION_LISTS = {
    "notifications": (
        *("notifications_digest", "notifications_destination", "notifications_outboxmessage"),
    ),
    "exports": ("exports_exportrun",),
    "crm": ("destinations_recordrun",),
}
# Lists of a section besides its own page.
SUBLISTS = {
    "engagement_feature",
    "engagement_eventname",
    "ingestion_quarantinedmessage",
    "ingestion_droppedmessage",
    "ingestion_inboxmessage",
    "ingestion_dropcount",
    "ingestion_ingestionkey",
    "ingestion_forgetkey",
    "readapi_apitoken",
    "engagement_trailentry",
    "notifications_digest",
    "notifications_destination",
    "notifications_outboxmessage",
    "exports_exportrun",
    "destinations_recordrun",
}
# What is done to a row on a page of its own, where its name does not say it.
STEPS = {
    "delete_all": "Delete",
    "matching": "Match report",
    "try_again": "Try again",
    "backtest": "Does the score predict?",
    "forecast": "Renewals ahead",
    "cohorts": "Who stays",
    "activation": "Activation",
    "edit_activation": "Steps",
    "chances": "Evaluations under way",
    "usage": "Who uses it",
    "password_change": "Change password",
    "account": "Your account",
    "account_add_app": "Add an authenticator app",
    "account_add_passkey": "Add a passkey",
    "account_recovery_codes": "Recovery codes",
    "reset_factors": "Reset second factors",
}
# The page of chances of a product without a ledger.
WITHOUT_LICENSES = "Likely to go quiet"
LIST_LABELS = {
    "licenses": "Licenses",
    "engagement_workspace_trends": "Trends",
    "engagement_workspace_alarms": "Alarms",
    "engagement_account": "Accounts",
    "engagement_user": "Users",
    "engagement_segment": "Segments",
    "engagement_workspace": "Workspaces",
    "engagement_feature": "Features",
    "engagement_eventname": "Events",
    "engagement_product": "Products",
    "ingestion_ingestionlog": "Ingestion",
    "ingestion_quarantinedmessage": "Quarantine",
    "ingestion_droppedmessage": "Dropped messages",
    "ingestion_inboxmessage": "Inbox",
    "ingestion_dropcount": "Drop counts",
    "ingestion_ingestionkey": "Ingestion keys",
    "ingestion_forgetkey": "Forget keys",
    "readapi_apitoken": "Read tokens",
    "engagement_trailentry": "Trail",
    "marketplace_connection": "Marketplace",
    "notifications_subscription": "Subscriptions",
    "notifications_digest": "Digests",
    "notifications_destination": "Destinations",
    "notifications_outboxmessage": "Delivery log",
    "exports_scheduledexport": "Exports",
    "exports_exportrun": "Runs",
    "destinations_recorddestination": "CRM",
    "destinations_recordrun": "Runs",
}


def split_url_name(url_name: str) -> tuple[str, str]:
    """The model and the view in a URL name, such as engagement_account and change."""
    for model in (*SECTIONS, "auth_user", "jobs"):
        if url_name == model:
            return model, model
        if url_name.startswith(f"{model}_"):
            return model, url_name.removeprefix(f"{model}_")
    return "", url_name
