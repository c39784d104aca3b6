"""What happened to an account or a user, one entry after the other, from what is stored anyway."""
