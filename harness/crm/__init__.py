"""CRMs on this machine that behave as the real ones do, for tests and benchmarks."""
