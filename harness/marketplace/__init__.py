"""A simulated marketplace: a small HTTP server for tests, benchmarks, and the demo.

It serves the endpoints that the connection uses, with invented data in the real structure, and can
simulate every fault that real marketplaces have shown.
"""
