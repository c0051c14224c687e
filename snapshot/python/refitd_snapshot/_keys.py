"""Trusted public keys, and what they signed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from typing import Iterable, Mapping, Optional, Union

from ._errors import BadKeyError, SignatureError
from ._json import Fields, loads, write
from ._errors import FormatError

_MAX_KEYS_BYTES = 64 << 10
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----\s+([A-Za-z0-9+/=\s]+?)-----END \1-----")
_ED25519 = bytes.fromhex("302a300506032b6570032100")  # of a SubjectPublicKeyInfo (RFC 8410), before the 32 bytes of the key


class Keys:
    """Trusted Ed25519 public keys by id, which is the first eight bytes of their SHA-256 in hex. Needs the package cryptography."""

    def __init__(self, keys: Iterable[bytes]):
        try:
            from cryptography.hazmat.primitives.asymmetric import ed25519
        except ImportError:
            raise ImportError("signatures need the package cryptography: pip install 'refitd-snapshot[signed]'") from None
        self._keys: dict[str, ed25519.Ed25519PublicKey] = {}
        for key in keys:
            if len(key) != 32:
                raise BadKeyError(f"{len(key)} bytes, an Ed25519 public key has 32")
            self._keys[hashlib.sha256(key).hexdigest()[:16]] = ed25519.Ed25519PublicKey.from_public_bytes(key)

    def verify(self, what: str, key_id: str, text: bytes, signature: bytes) -> None:
        """Raises SignatureError unless the key of that id is trusted and signed the text."""
        from cryptography.exceptions import InvalidSignature

        if not self._keys:
            raise SignatureError(f"{what}: the list of trusted keys is empty: add the publisher's public key")
        if not key_id or not signature:
            raise SignatureError(f"{what}: it is unsigned: set publish.signing_key_file of the publisher")
        key = self._keys.get(key_id)
        if key is None:
            raise SignatureError(f"{what}: key {key_id} is not trusted: add its public key, if it should be")
        try:
            key.verify(signature, text)
        except InvalidSignature:
            raise SignatureError(f"{what}: the signature is not one of key {key_id}: it was altered, take it from the publisher again") from None

    def verify_manifest(self, manifest: bytes, file: Optional[bytes]) -> str:
        """Raises SignatureError unless file is a manifest.sig over the manifest; None means that the file is missing.
        Returns the id of the key."""
        key_id, signature = "", b""
        if file:
            try:
                f = Fields("manifest.sig", loads("manifest.sig", file))
                key_id, signature = f.text("key_id"), unbase64(f.text("signature"))
                again = {"key_id": key_id, "algorithm": "ed25519", "signature": f.text("signature")}
                same = (write(again) + "\n").encode() == file
            except (FormatError, ValueError) as error:
                raise SignatureError(f"manifest.sig: {error}") from None
            if not same:
                raise SignatureError("manifest.sig: not a signature of this format")
        self.verify("manifest.json", key_id, manifest, signature)
        return key_id


def unbase64(text: str) -> bytes:
    """Reads standard base64 with its padding. Raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None


PathLike = Union[str, "os.PathLike[str]"]
KeysLike = Union[None, Keys, PathLike, Iterable[PathLike]]


def load_keys(*paths: PathLike) -> Keys:
    """Returns the public keys of PEM files; a file may hold several. Raises BadKeyError."""
    found: list[bytes] = []
    for path in paths:
        try:
            with open(path, "rb") as f:
                content = f.read(_MAX_KEYS_BYTES)
        except OSError as error:
            raise BadKeyError(f"public key: {error}") from None
        blocks = _PEM.findall(content)
        if not blocks:
            raise BadKeyError(f"public key {os.fspath(path)}: no PEM block PUBLIC KEY")
        for kind, body in blocks:
            try:
                der = unbase64(b"".join(body.split()).decode())
            except ValueError:
                der = b""
            if kind != b"PUBLIC KEY" or len(der) != len(_ED25519) + 32 or not der.startswith(_ED25519):
                raise BadKeyError(f"public key {os.fspath(path)}: a PEM block {kind.decode()} that is not an Ed25519 PUBLIC KEY")
            found.append(der[len(_ED25519) :])
    return Keys(found)


def keys_of(keys: KeysLike) -> Optional[Keys]:
    """Returns the keys of what a caller gave: None, keys, the path of a PEM file, or paths."""
    if keys is None or isinstance(keys, Keys):
        return keys
    if isinstance(keys, (str, os.PathLike)):
        return load_keys(keys)
    if isinstance(keys, (bytes, Mapping)):
        raise TypeError("keys: want None, Keys, or paths of PEM files")
    return load_keys(*keys)
