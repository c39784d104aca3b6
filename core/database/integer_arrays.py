"""Arrays of integers as parameters of statements, encoded at once.

psycopg encodes an array item by item, and as smallint or integer if its values are small, which
PostgreSQL then converts. Arrays of ids are most of what the drain sends.
"""

import struct
import sys
from array import array
from typing import Any, NamedTuple

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.pq import Format

_BIGINT = types["int8"]
# Dimensions, whether there are nulls, the type, the length, and the index of the first item.
_HEAD = struct.Struct("!iiIii")
_SIZE = 8
_LENGTH = struct.pack("!i", _SIZE)
_STRIDE = len(_LENGTH) + _SIZE


class BigintArray(NamedTuple):
    """A bigint[] in PostgreSQL's binary format."""

    content: bytes


class _BigintArrayDumper(Dumper):
    format = Format.BINARY

    def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        # Not of the class: psycopg would dump the arrays of COPY with it.
        self.oid = _BIGINT.array_oid

    def dump(self, obj: BigintArray) -> bytes:
        return obj.content


psycopg.adapters.register_dumper(BigintArray, _BigintArrayDumper)


def encode(values: list[Any]) -> list[Any] | BigintArray:
    """The integers as an array, or the list itself if it has anything else."""
    if not values or type(values[0]) is not int:
        return values
    try:
        numbers = array("q", values)
    except (TypeError, OverflowError):
        return values
    if sys.byteorder == "little":
        numbers.byteswap()
    count, raw = len(values), numbers.tobytes()
    # Byte by byte of all items: their lengths, which need the last byte only, and their values.
    items = bytearray(_STRIDE * count)
    items[len(_LENGTH) - 1 :: _STRIDE] = _LENGTH[-1:] * count
    for place in range(_SIZE):
        items[len(_LENGTH) + place :: _STRIDE] = raw[place::_SIZE]
    return BigintArray(_HEAD.pack(1, 0, _BIGINT.oid, count, 1) + items)
