"""The pages of the admin, its home page, its search, and its side bar."""
