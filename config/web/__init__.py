"""What every page passes through."""
