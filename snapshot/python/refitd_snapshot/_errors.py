"""The errors that callers branch on: those of the Go library, by the same names."""

from __future__ import annotations


class SnapshotError(Exception):
    """The base of all errors of this package."""


class NotFoundError(SnapshotError):
    """The store has no such model, alias or version."""


class DigestError(SnapshotError):
    """A file is not the one that was published: cut off, altered, or of another version."""


class FormatError(SnapshotError):
    """Bytes do not follow the format, or follow one that this build does not read."""


class GoldenError(SnapshotError):
    """This build scores the golden events of a version differently from its writer."""


class SignatureError(SnapshotError):
    """A version or an alias is not signed by a key that the reader trusts."""


class ChainError(SnapshotError):
    """A delta does not follow what the reader has: out of order, missing, or of another chain."""


class ContentsError(SnapshotError):
    """A delta has a row, a name or numbers that its model cannot have."""


class ExpiredError(SnapshotError):
    """A version may not be used any more: its manifest says so."""


class OlderError(SnapshotError):
    """An alias is older than the one that was accepted before."""


class BadKeyError(SnapshotError):
    """A key file cannot be used: unreadable, or not an Ed25519 public key."""


class BadNameError(SnapshotError):
    """A model or alias name is not of the form [a-z0-9][a-z0-9._-]{0,63}."""


class InputError(SnapshotError, ValueError):
    """An event does not have the shape that the schema asks for, or numbers too large to be scored."""


class NoProbabilitiesError(SnapshotError):
    """A model has no probabilities: its label is a number, or its link has none."""


class NoFoldInError(SnapshotError):
    """A version cannot take events in: it was written before there was fold-in, or its model has no posterior."""
