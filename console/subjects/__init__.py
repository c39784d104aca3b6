"""Pages of users and accounts."""
