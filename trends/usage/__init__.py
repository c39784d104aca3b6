"""The use of events and features: what is counted in the night, and what readers see of it."""
