"""What happened to each license: observations of its states, and the events that follow."""
