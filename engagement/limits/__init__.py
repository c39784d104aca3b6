"""Limits that keep one product from crowding out the others."""
