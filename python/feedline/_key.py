"""Keys that mean the same in every process."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from hashlib import blake2b
from operator import index
from typing import Any


def digest(key: Any) -> bytes:
    """Sixteen bytes that stand for a key.

    A key is a ``str``, ``bytes``, an integer, ``float``, ``bool``, ``None``, a path, or a tuple of these. Python's
    own ``hash`` would not do: it differs between processes.

    >>> digest(("patient", 7)) == digest(("patient", 7))
    True
    >>> digest(1) == digest("1")
    False
    """
    state = blake2b(digest_size=16)
    _feed(state.update, key)
    return state.digest()


def _feed(update: Callable[[bytes], None], key: Any) -> None:
    """Each kind has a letter, and says how long it is: no two keys are written alike."""
    if isinstance(key, str):
        _text(update, b"s", key.encode("utf-8", "surrogatepass"))
    elif isinstance(key, bytes):
        _text(update, b"b", key)
    elif isinstance(key, tuple):
        update(b"(%d:" % len(key))
        for part in key:
            _feed(update, part)
    elif key is None or isinstance(key, bool):
        update(b"%d" % key if key is not None else b"n")
    elif isinstance(key, float):
        update(b"f" + struct.pack("<d", key))
    elif isinstance(key, os.PathLike):
        _text(update, b"p", os.fsencode(key))
    elif hasattr(key, "__index__"):
        _text(update, b"i", b"%d" % index(key))
    else:
        raise TypeError(
            f"a key is a str, bytes, an integer, float, bool, None, a path, or a tuple of these, not {key!r} "
            f"({type(key).__qualname__})"
        )


def _text(update: Callable[[bytes], None], kind: bytes, text: bytes) -> None:
    update(b"%b%d:" % (kind, len(text)))
    update(text)
