"""Alarms: which accounts differ from their usual activity by more than chance explains."""
