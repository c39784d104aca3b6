"""What benchmarks, proofs, and the demo are made of: services to run, clients that post, accounts,
invented data, and a simulated marketplace. An app, for its two commands."""
