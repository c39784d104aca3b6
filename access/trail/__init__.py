"""The trail: entries, which models it follows, and sign-ins."""
