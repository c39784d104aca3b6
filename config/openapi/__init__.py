"""The OpenAPI description of both APIs, and the page that shows it."""
