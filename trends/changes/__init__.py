"""What changed in a week or a day: alarms, scores, segments, and what is decided next."""
