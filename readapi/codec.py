"""Cursors and tokens as texts for URLs: a version, and a struct as MessagePack, in base64."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

import msgspec

_TEXT = re.compile(r"[A-Za-z0-9_-]{1,300}", re.ASCII)

Packed = TypeVar("Packed", bound=msgspec.Struct)


def pack(value: msgspec.Struct, version: int) -> str:
    content = bytes([version]) + msgspec.msgpack.encode(value)
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def unpack(text: str, cls: type[Packed], version: int) -> Packed | None:
    """The value that ``pack`` turned into *text*; None for any other text.

    Base64 and MessagePack can spell the same value in several ways. Only one is accepted.
    """
    if not _TEXT.fullmatch(text):
        return None
    try:
        content = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        value = msgspec.msgpack.decode(content[1:], type=cls)
    except (ValueError, msgspec.DecodeError):
        return None
    return value if pack(value, version) == text else None
