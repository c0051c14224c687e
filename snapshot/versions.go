package snapshot

import (
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// What a version is and which one is meant: see packages format and verify for their methods.
type (
	// Manifest describes a version: shape, schema, origin, metrics, digests.
	Manifest = format.Manifest
	// Pointer is an alias: the version it names, signed if there are keys.
	Pointer = pointer.Pointer
	// Renewal says when an alias was last confirmed.
	Renewal = pointer.Renewal
	// Keys are public keys by their id.
	Keys = format.Keys
	// Selector chooses a version by number or alias.
	Selector = verify.Selector
	// Trust is what a reader asks of a version besides digests and golden events.
	Trust = verify.Trust
)

// Names of aliases and files.
const (
	Latest       = pointer.Latest   // newest published version, promoted or not
	Champion     = pointer.Champion // what consumers should use
	ManifestFile = disk.ManifestFile
)

// The errors that callers branch on. They are wrapped with the values that explain them and what to do.
var (
	// ErrNotFound means that the store has no such model, alias or version.
	ErrNotFound = disk.ErrNotFound
	// ErrDigest means that a file is not the one that was published: cut off, altered, or of another version.
	ErrDigest = disk.ErrDigest
	// ErrFormat means that bytes do not follow the format, or follow one that this build does not read.
	ErrFormat = disk.ErrFormat
	// ErrGolden means that this build scores the golden events of a version differently from its writer.
	ErrGolden = disk.ErrGolden
	// ErrSignature means that a version or an alias is not signed by a key that the reader trusts.
	ErrSignature = disk.ErrSignature
	// ErrExpired means that a version may not be used any more: its manifest says so.
	ErrExpired = disk.ErrExpired
	// ErrOlder means that an alias is older than the one that was accepted before.
	ErrOlder = disk.ErrOlder
	// ErrKey means that a key file cannot be used: unreadable, open to others, or not an Ed25519 key.
	ErrKey = disk.ErrKey
	// ErrContents means that a model is not fit to be published: inconsistent, not finite, without parameters, or over
	// a size limit.
	ErrContents = disk.ErrContents
	// ErrConflict means that another writer was there: an alias no longer names the version it was expected to name, or
	// a chain has other deltas.
	ErrConflict = disk.ErrConflict
	// ErrChain means that a delta does not follow where the model is: of another version, not the next one, or after
	// another one than was applied.
	ErrChain = disk.ErrChain
	// ErrName means that a model or alias name is not of the form [a-z0-9][a-z0-9._-]{0,63}.
	ErrName = disk.ErrName
	// ErrInput means that an event does not have the shape that the schema asks for, or numbers too large to be scored.
	ErrInput = disk.ErrInput
	// ErrNoFoldIn means that a version has nothing to fold a history in with.
	ErrNoFoldIn = scorer.ErrNoFoldIn
)

// Open reads a version of a model from a store, unsigned or signed by anybody: it is Trust{}.Open.
func Open(dir, model string, sel Selector) (*Model, error) {
	return verify.Trust{}.Open(dir, model, sel)
}

// LoadKeys reads public keys from files in PEM, as for Trust.Keys. It returns ErrKey.
func LoadKeys(paths ...string) (Keys, error) { return format.LoadKeys(paths...) }
