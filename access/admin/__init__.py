"""Pages of products, logins, secrets, and the trail."""
