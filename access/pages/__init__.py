"""Base classes of the admin's pages, limited to the products that a login may see."""
