"""Requests to addresses that people enter: checked, so that none reaches the operator's network."""
