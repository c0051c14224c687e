// The errors that callers branch on: those of the Go library, by the names of the Python package.

/** The base of all errors of this package. */
export class SnapshotError extends Error {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** The store has no such model, alias or version. */
export class NotFoundError extends SnapshotError {}
/** A file is not the one that was published: cut off, altered, or of another version. */
export class DigestError extends SnapshotError {}
/** Bytes do not follow the format, or follow one that this build does not read. */
export class FormatError extends SnapshotError {}
/** This build scores the golden events of a version differently from its writer. */
export class GoldenError extends SnapshotError {}
/** A version or an alias is not signed by a key that the reader trusts. */
export class SignatureError extends SnapshotError {}
/** A delta does not follow what the reader has: out of order, missing, or of another chain. */
export class ChainError extends SnapshotError {}
/** A delta has a row, a name or numbers that its model cannot have. */
export class ContentsError extends SnapshotError {}
/** A version may not be used any more: its manifest says so. */
export class ExpiredError extends SnapshotError {}
/** An alias is older than the one that was accepted before. */
export class OlderError extends SnapshotError {}
/** A key cannot be used: unreadable, or not an Ed25519 public key. */
export class BadKeyError extends SnapshotError {}
/** A model or alias name is not of the form [a-z0-9][a-z0-9._-]{0,63}. */
export class BadNameError extends SnapshotError {}
/** An event does not have the shape that the schema asks for, or numbers too large to be scored. */
export class InputError extends SnapshotError {}
/** A version cannot take events in: it was written before there was fold-in, or its model has no posterior. */
export class NoFoldInError extends SnapshotError {}

const kinds = { NotFoundError, DigestError, FormatError, GoldenError, SignatureError, ChainError, ContentsError, ExpiredError, OlderError, BadKeyError,
  BadNameError, InputError, NoFoldInError };

/** Returns the error that a refusal of the module stands for. */
export const errorOf = ({ name, text }) => new (kinds[name] ?? SnapshotError)(text);
