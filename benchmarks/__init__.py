"""The performance promises as commands: ``python -m benchmarks.accept`` and its neighbours."""
