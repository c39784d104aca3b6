"""The security headers of responses that do not come from Django, which adds them to its own.

This imports nothing of Django, because the server refuses some requests before it is loaded.
"""

HEADERS = [
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
]
