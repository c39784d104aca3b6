"""What a start needs: checks, the first product, and the demo."""
