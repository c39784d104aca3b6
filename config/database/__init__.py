"""Connections, the broker's address, the tables of a first start, and the nodes of a cluster."""
