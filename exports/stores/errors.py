"""What goes wrong in a store."""


class StoreError(Exception):
    """A file could not be written or deleted. The text is a sentence for people."""
