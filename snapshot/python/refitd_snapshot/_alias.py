"""What aliases say: a version, the digest of its manifest, and the number of the move that set them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Optional

from ._errors import BadNameError, DigestError, FormatError, OlderError, SignatureError
from ._json import Fields, loads, sha256, write, write_time
from ._keys import Keys, unbase64

MAX_ALIAS_BYTES = 1024
MAX_VERSION = (1 << 53) - 1
_MAX_PLAUSIBLE = 1 << 40  # a number of a version that counting can come to
_MOVES_PER_VERSION = 16
_MOVES_BESIDE = 1 << 24
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def check_name(what: str, name: str) -> None:
    """Raises BadNameError unless it is the name of a model or an alias."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadNameError(f"{what} {name!r} is not of the form {_NAME.pattern}")


@dataclass(frozen=True)
class Renewal:
    """A publisher's statement that an alias, as it was set by one move, is still valid."""

    renewed: Optional[datetime] = None
    expires: Optional[datetime] = None
    key_id: str = ""
    signature: str = ""
    digest: str = ""


@dataclass(frozen=True)
class Pointer:
    """The content of an alias file, with its newest renewal. Version 0 is none."""

    version: int = 0
    manifest_digest: str = ""
    sequence: int = 0
    moved: Optional[datetime] = None
    event: str = ""
    key_id: str = ""
    signature: str = ""
    digest: str = ""
    renewal: Renewal = Renewal()

    def _text(self, model: str, alias: str) -> bytes:
        lines = ("refitd alias", model, alias, self.version, self.manifest_digest, self.sequence, write_time(self.moved), self.event, self.key_id)
        return "".join(f"{line}\n" for line in lines).encode()

    def verify(self, model: str, alias: str, keys: Optional[Keys]) -> None:
        """Raises FormatError or DigestError unless it is what an alias of a model was set to, and SignatureError unless one of the keys signed it.
        Keys None asks for no signature; then the number of the move has to be one that counting can have come to."""
        self.check(model, alias)
        if keys is not None:
            keys.verify(f"alias {alias}", self.key_id, self._text(model, alias), _bytes(f"alias {alias}", self.signature))
        elif self.version > _MAX_PLAUSIBLE or self.sequence > _MOVES_PER_VERSION * self.version + _MOVES_BESIDE:
            raise FormatError(f"alias {alias}: move {self.sequence} of an alias that names version {self.version}: nobody can have counted to that")

    def check(self, model: str, alias: str) -> None:
        """Is verify without looking at who signed it."""
        if not 1 <= self.version <= MAX_VERSION or self.sequence < 0 or not self.manifest_digest:
            raise FormatError(f"alias {alias}: version {self.version}, sequence {self.sequence}: set it again")
        first = not (self.sequence or self.moved or self.event or self.key_id or self.signature or self.digest)
        if not first and self.digest != "sha256:" + sha256(self._text(model, alias)):
            raise DigestError(f"alias {alias}: it is not the one that was written for model {model}: set it again")

    def verified_renewal(self, model: str, alias: str, keys: Optional[Keys]) -> Renewal:
        """Returns the renewal, or none if it is of another move, damaged, or not signed by one of the keys."""
        r = self.renewal
        lines = ("refitd renewal", model, alias, self.version, self.manifest_digest, self.sequence, write_time(r.renewed), write_time(r.expires), r.key_id)
        text = "".join(f"{line}\n" for line in lines).encode()
        if r.renewed is None or r.digest != "sha256:" + sha256(text):
            return Renewal()
        if keys is not None:
            try:
                keys.verify("renewal", r.key_id, text, _bytes("renewal", r.signature))
            except SignatureError:
                return Renewal()
        return r

    def same(self, other: Pointer) -> bool:
        """Whether both name the same version with the same manifest by the same move."""
        return (self.version, self.manifest_digest, self.sequence) == (other.version, other.manifest_digest, other.sequence)

    def unchanged(self, other: Pointer) -> bool:
        """Whether both are the same, with the same renewal."""
        return self.same(other) and self.renewal.renewed == other.renewal.renewed

    def follow(self, last: Pointer) -> None:
        """Raises OlderError unless it is the pointer accepted last, or a later one."""
        if self.same(last) or self.sequence > last.sequence or self.sequence == 0 == last.sequence and self.version > last.version:
            return
        raise OlderError(
            f"version {self.version} by move {self.sequence} of the alias, accepted was version {last.version} by move {last.sequence}: "
            "an old copy is being offered; to use it nevertheless, pin the version or delete the state file"
        )

    def renewed_at(self) -> Optional[datetime]:
        """When the publisher last confirmed the alias; None is not known."""
        if self.renewal.renewed is not None and (self.moved is None or self.renewal.renewed > self.moved):
            return self.renewal.renewed
        return self.moved

    def members(self) -> dict[str, Any]:
        """Returns the members of its JSON object, in order."""
        out: dict[str, Any] = {"version": self.version, "manifest_digest": self.manifest_digest}
        if self.sequence:
            out["sequence"] = self.sequence
        if self.moved is not None:
            out["moved"] = write_time(self.moved)
        for name, value in (("event", self.event), ("key_id", self.key_id), ("signature", self.signature), ("pointer_digest", self.digest)):
            if value:
                out[name] = value
        if (r := self.renewal) != Renewal():
            renewal: dict[str, Any] = {"renewed": write_time(r.renewed)}
            if r.expires is not None:
                renewal["expires"] = write_time(r.expires)
            for name, value in (("key_id", r.key_id), ("signature", r.signature)):
                if value:
                    renewal[name] = value
            renewal["renewal_digest"] = r.digest
            out["renewal"] = renewal
        return out


def _bytes(what: str, signature: str) -> bytes:
    try:
        return unbase64(signature)
    except ValueError as error:
        raise SignatureError(f"{what}: {error}") from None


def read_pointer(what: str, f: Fields) -> Pointer:
    """Reads a pointer, with its renewal if it has one; verify says whether it is one."""
    renewal = Renewal() if f.value.get("renewal") is None else read_renewal(Fields(f"{what}: renewal", f.value["renewal"]))
    return Pointer(
        version=f.whole("version"),
        manifest_digest=f.text("manifest_digest"),
        sequence=f.whole("sequence"),
        moved=f.time("moved"),
        event=f.text("event"),
        key_id=f.text("key_id"),
        signature=f.text("signature"),
        digest=f.text("pointer_digest"),
        renewal=renewal,
    )


def read_renewal(f: Fields) -> Renewal:
    """Reads a renewal; Pointer.verified_renewal says whether it is one."""
    return Renewal(f.time("renewed"), f.time("expires"), f.text("key_id"), f.text("signature"), f.text("renewal_digest"))


def decode_alias(alias: str, content: bytes) -> Pointer:
    """Reads an alias file, which has one form only."""
    what = f"alias {alias}"
    pointer = read_pointer(what, Fields(what, loads(what, content)))
    if pointer.renewal != Renewal() or (write(pointer.members()) + "\n").encode("utf-8", "replace") != content:
        raise FormatError(f"{what}: {content!r}: set it again")
    return pointer


def with_renewal(pointer: Pointer, content: Optional[bytes]) -> Pointer:
    """Adds the renewal in a file, None if the file is missing, to a pointer, unverified."""
    if content is None:
        return pointer
    try:
        return replace(pointer, renewal=read_renewal(Fields("renewal", loads("renewal", content))))
    except FormatError:
        return pointer
