"""The marketplace as a small HTTP server, for tests, measurements, the demo and the curious.

It serves the addresses that the connection uses, with invented data in the real shape, and can be
told to misbehave in every way that a real one has been seen to. Nothing of the service imports it
but ``manage.py marketplace_simulator`` and ``up --demo``.
"""
