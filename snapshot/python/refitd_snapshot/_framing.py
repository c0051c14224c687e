"""The frames in which deltas are stored and sent."""

from __future__ import annotations

from ._errors import DigestError, FormatError
from ._json import Fields, loads, sha256

MAGIC = b"RFDELTA1"  # the last byte is the form: _TREES of a delta with trees
_TREES = b"2"
SIGNED = b"refitd delta 1\n"  # before a header where it is signed
FIXED = len(MAGIC) + 4 + 32
_SIGNATURE_BYTES = 64
_MAX_HEADER_BYTES = 1 << 20
_MAX_PAYLOAD_BYTES = 64 << 20


def split(content: bytes, at: int) -> int:
    """Returns where the frame that begins at a place ends, or -1 if it is cut off. Raises FormatError or DigestError for what is no frame."""
    if not content.startswith(MAGIC[:-1][: len(content) - at], at):
        raise FormatError(f"not a delta: it begins with {content[at : at + len(MAGIC)]!r}")
    if len(content) - at < FIXED:
        return -1
    if (form := content[at + len(MAGIC) - 1 : at + len(MAGIC)]) not in (MAGIC[-1:], _TREES):
        raise FormatError(f"a delta of form {form!r}: it is of a newer format: use a newer build of this package")
    length = int.from_bytes(content[at + len(MAGIC) : at + len(MAGIC) + 4], "little")
    if length > _MAX_HEADER_BYTES:
        raise FormatError(f"delta: header of {length} bytes, the limit is {_MAX_HEADER_BYTES}")
    end = at + FIXED + length
    if len(content) < end:
        return -1
    end += _rest(header(content[at:end]))
    return end if end <= len(content) else -1


def header(head: bytes) -> Fields:
    """Reads the header of a frame of which that much is there, its digest first."""
    if sha256(head[FIXED:]) != head[FIXED - 32 : FIXED].hex():
        raise DigestError("delta: the header was altered: take it from the publisher again")
    f = Fields("delta", loads("delta", head[FIXED:]))
    size, rows, added = f.whole("payload_bytes"), f.whole("rows"), f.whole("added")
    if not (0 <= size <= _MAX_PAYLOAD_BYTES and 0 <= added <= rows <= _MAX_PAYLOAD_BYTES and 0 <= f.whole("table_rows") <= _MAX_PAYLOAD_BYTES):
        raise FormatError(f"delta: {added} names, {rows} rows, {size} bytes: out of range (at most {_MAX_PAYLOAD_BYTES} bytes)")
    if not 0 <= (trees := f.whole("trees_bytes")) <= size or (head[len(MAGIC) - 1 : len(MAGIC)] == _TREES) != (trees > 0):
        raise FormatError(f"delta: {trees} bytes of trees of {size}, in a frame of form {head[len(MAGIC) - 1 : len(MAGIC)]!r}")
    return f


def _rest(f: Fields) -> int:
    """Returns how many bytes follow the header."""
    return f.whole("payload_bytes") + (_SIGNATURE_BYTES if f.text("key_id") else 0)
