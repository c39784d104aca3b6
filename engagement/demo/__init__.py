"""Invented data that looks like a product's: for the demo, for trying things out at any size, and
for measuring. Companies, people and addresses are made up."""
