"""What is expected to renew in the months ahead, and how good past forecasts were."""
