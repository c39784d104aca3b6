"""The read API for assistants: the Model Context Protocol at ``/mcp``, over streamable HTTP.

The official package speaks the protocol. Each request stands for itself and gets one JSON
response, so there are no sessions and no streams. That is all that tools need.
"""
