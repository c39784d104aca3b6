"""Log lines and what must not be in them."""
