"""The service with one address that does nothing: what the same server and lane can do at most."""
