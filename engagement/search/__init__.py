"""Finds users and accounts by any part of their name, email address, domain, or id."""
