"""Webhooks that tools of automation, such as Zapier and n8n, add and remove themselves."""
