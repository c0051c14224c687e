package disk

import "errors"

// The errors that callers branch on. They are wrapped with the values that explain them and what to do.
var (
	// ErrNotFound means that the store has no such model, alias or version.
	ErrNotFound = errors.New("not found")
	// ErrDigest means that a file is not the one that was published: cut off, altered, or of another version.
	ErrDigest = errors.New("digest mismatch")
	// ErrFormat means that bytes do not follow the format, or follow one that this build does not read.
	ErrFormat = errors.New("bad format")
	// ErrGolden means that this build scores the golden events of a version differently from its writer.
	ErrGolden = errors.New("golden events do not score the same")
	// ErrSignature means that a version or an alias is not signed by a key that the reader trusts.
	ErrSignature = errors.New("not signed by a trusted key")
	// ErrExpired means that a version may not be used any more: its manifest says so.
	ErrExpired = errors.New("expired")
	// ErrOlder means that an alias is older than the one that was accepted before.
	ErrOlder = errors.New("older than what was accepted before")
	// ErrKey means that a key file cannot be used: unreadable, open to others, or not an Ed25519 key.
	ErrKey = errors.New("unusable key")
	// ErrContents means that a model is not fit to be published: inconsistent, not finite, without parameters, or over
	// a size limit.
	ErrContents = errors.New("not publishable")
	// ErrConflict means that another writer was there: an alias no longer names the version it was expected to name, or
	// a chain has other deltas.
	ErrConflict = errors.New("changed by another writer")
	// ErrChain means that a delta does not follow where the model is: of another version, not the next one, or after
	// another one than was applied.
	ErrChain = errors.New("not the next delta of the chain")
	// ErrName means that a model or alias name is not of the form [a-z0-9][a-z0-9._-]{0,63}.
	ErrName = errors.New("bad name")
	// ErrInput means that an event does not have the shape that the schema asks for, or numbers too large to be scored.
	ErrInput = errors.New("bad event")
)
