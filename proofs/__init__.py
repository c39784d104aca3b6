"""Runs that try to lose, double, or break something: ``python -m proofs.durability`` and others."""
