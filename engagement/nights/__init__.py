"""What happens once a day, when a day is complete: active days are counted, and alarms decided."""
