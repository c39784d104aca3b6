"""Pages of workspaces: weights, and what other weights would change."""
