"""Figures of each day: what is computed in the night, and what readers see of it."""
