"""Forms of rules, and what they find."""
