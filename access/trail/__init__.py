"""The trail: entries, which models it follows, sign-ins, and retention."""
