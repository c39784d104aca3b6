"""What benchmarks and proofs are made of: services to run, clients that post, and accounts."""
