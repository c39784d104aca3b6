"""Licenses and their traits, without HTTP."""
