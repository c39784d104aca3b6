"""The service's own code in one process, with one clock and one seeded scheduler."""
