"""Where outcomes come from: licenses, and the activity of accounts."""
