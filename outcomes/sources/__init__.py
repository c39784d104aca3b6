"""Where outcomes come from: licenses, traits, and the activity of accounts."""
