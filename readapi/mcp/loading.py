"""Imports the protocol's package at the first request for it, and not before."""

import sys
import threading
from importlib import import_module
from types import ModuleType

import gevent
from gevent import monkey

_MODULE = "readapi.mcp.protocol"
_importing = threading.Lock()


def load_protocol() -> ModuleType:
    """The module ``readapi.mcp.protocol``.

    A web process serves all requests in one thread, which the import would stop for a second. So
    another thread imports, and the requests go on.
    """
    with _importing:
        return sys.modules.get(_MODULE) or _import()


def _import() -> ModuleType:
    if not monkey.is_module_patched("threading"):
        return import_module(_MODULE)
    module: ModuleType = gevent.get_hub().threadpool.apply(import_module, (_MODULE,))
    return module
