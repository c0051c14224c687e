// Package verify is what a reader refuses: it opens versions of a store and gives out a model only once everything
// holds.
// Package snapshot names its types; programs that use models import that.
//
// It does not parse files, as package format does, nor score, as package scorer does; it only says in which order, and
// what of them counts. It writes nothing. It keeps no state: a Trust is a plain value, safe for concurrent use.
//
//	trust.go    Trust: size, signature, digest, expiry, then the files, then the golden events
//	open.go     Selector, Trust.Open; files of a version side by side
//	alias.go    alias and renewal as they are in a directory
//	cut.go      a cut that is not in its manifest
//
// # What a reader refuses
//
// In this order, and before any file but the manifest is parsed: an alias that is not signed by a trusted key or is
// older than the one accepted last (Watch; see Pointer.Sequence); a manifest of more than 64 KiB; one without a
// signature of a trusted key over its bytes (Trust.Keys); one that does not end in its own digest, is of another
// version, model or manifest than the alias names, or of a format that this build does not read; a version that has
// expired. Then, of each file, one that has not the size and SHA-256 of the manifest, before it is parsed: a header
// that is not the one of the shape, numbers that are not finite, a vocabulary that does not fit, and golden events that
// score otherwise. Paths do not leave the model's directory, by ".." or by links. A watcher that refuses a version
// serves the last good one and says why in its Status.
//
// Without keys the digests show every accident, but no authorship: anyone who can write to the store can forge a
// version. With keys, a mirror can only withhold new versions, which an expiry bounds. Rotate a key by trusting the
// old and the new one for as long as versions or aliases of the old one are in use; revoke it by taking it off the
// list.
package verify
