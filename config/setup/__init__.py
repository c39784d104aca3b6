"""What a start needs: checks, and the first product."""
