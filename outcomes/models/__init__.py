"""The tables of outcomes, and of what was concluded from them."""
