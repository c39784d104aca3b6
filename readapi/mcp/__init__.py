"""The read API for assistants: the Model Context Protocol at ``/mcp``, over streamable HTTP.

Each request stands for itself and gets one JSON response, so there are no sessions and no streams.
That is all that tools need, and runs in the web processes like any other request. The official
server package needs an event loop of its own, 3 seconds to import, and 55 MB in each process.
"""
