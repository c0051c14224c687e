package sketch

import (
	"context"

	"github.com/refitd/refitd/sketch/internal/audit"
	"github.com/refitd/refitd/sketch/internal/backup"
	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/mirror"
	"github.com/refitd/refitd/sketch/internal/outbox"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/sample"
	"github.com/refitd/refitd/sketch/internal/share"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/stub"
	"github.com/refitd/refitd/sketch/internal/witness"
)

// LeastFreeFiles is how many more files the file system of a state must be able to take for anything to be written.
const LeastFreeFiles = storage.LeastFreeFiles

// ErrChanged: the state is not as the change left it that is to be undone.
var ErrChanged = storage.ErrChanged

// ErrForeign: what was to be merged is not of a store that reads other partitions of the same topics under the same
// settings.
var ErrForeign = mirror.ErrForeign

// ErrBehind: the accounts to be merged are behind those that were. What the shard sends next to them is to be merged
// with a later head.
var ErrBehind = share.ErrBehind

// Names of types that the rooms below this package define.
type (
	// A Lock keeps other processes out of a state directory.
	Lock = storage.Lock
	// A Progress gets how far a pass over a store has come.
	Progress = storage.Progress
	// A Change is what one transaction replaces, for Undo.
	Change = storage.Change
	// A Fate is what became of a record. The zero value is invalid.
	Fate = ledger.Fate
	// A Role is what an applied event is for.
	Role = ledger.Role
	// A Digest is a SHA-256 sum.
	Digest = ledger.Digest
	// A LedgerRow accounts for the offsets Start..Next-1 of one partition.
	LedgerRow = ledger.Row
	// A Position is how far a partition has been applied.
	Position = ledger.Position
	// A TimeBound says that in a range of offsets no event may be newer than a time.
	TimeBound = ledger.TimeBound
	// A Quota is the share of the training sample, in (0, 1], that one class has.
	Quota = policy.Quota
	// A ConfigError names the setting in which configuration and stored state differ. It wraps ErrConfig.
	ConfigError = policy.ConfigError
	// An Entity is what the caller keeps of one entity of a partition in addition to the sample: bytes that change with
	// the records, in their transactions. It outlives the incarnation of a topic.
	Entity = codec.Entity
	// A Schema is what is needed to read records again, in addition to the records: it is stored in the transaction of
	// the first record that needs it. Key and Value are the caller's.
	Schema = codec.Schema
	// A DeadLetter is a rejected record that waits in the outbox to be sent on. It was written in the transaction that
	// counted the record, so that neither is there without the other.
	DeadLetter = outbox.Letter
	// A Detail is what the dead letter of a rejected record says in addition to the reason.
	Detail = outbox.Detail
	// A Pair is a key of the database with its value, sealed as it is stored. The value of a removed key is nil.
	Pair = mirror.Pair
	// A Head is the accounts that the pairs up to it belong to, as they are stored.
	Head = mirror.Head
	// An Excerpt is what a copy of a store lacks at one commit.
	Excerpt = mirror.Excerpt
	// A Threshold is what the rank of a row of a sample has to reach, once an event was put out of it.
	Threshold = mirror.Threshold
	// A State describes a store: what two copies that read the same log under the same settings agree on, but for
	// Lineage and ConfigHash.
	State = audit.State
	// A Sample is a private copy of the state after one commit. Rows are in the order of their identity hashes, which is
	// random but reproducible.
	Sample = sample.Sample
	// An Order says which outcomes of a partition are kept of one key.
	Order = stub.Order
	// An Outcome is an event of another topic that says what came of an event of the sample.
	Outcome = stub.Outcome
	// An Identity is a keyed hash of what identifies an event.
	Identity = policy.Identity
	// A Row is an event of the sample.
	Row = sample.Row
	// A Witness is the small file in the state directory that records how far the state had come.
	Witness = witness.Witness
	// A Testimony is what a witness says of one partition.
	Testimony = witness.Testimony
	// A Rollback is a partition of which the state was found behind its witness: offsets Next..Witnessed-1 had been
	// applied and have to be read again, which gives the same state.
	Rollback = witness.Rollback
	// A BackupHeader says what a backup holds.
	BackupHeader = backup.Header
	// A Share is what a store that reads some of the partitions has sent of itself: excerpts of it up to one with a head.
	Share = share.Share
	// A Marker says that the events of a subject are forgotten.
	Marker = ledger.Marker
)

// The fates.
const (
	Applied  = ledger.Applied  // a valid event: it may enter the sample
	Rejected = ledger.Rejected // not a valid event; Record.Reason says why
	Control  = ledger.Control  // a transaction marker
	Aborted  = ledger.Aborted  // of an aborted transaction
)

// The roles.
const (
	Train    = ledger.Train    // training rows
	Select   = ledger.Select   // held out: choice of strength, basis size and stopping
	Gate     = ledger.Gate     // held out: is a new model better than the champion?
	NumRoles = ledger.NumRoles // the number of roles
)

// The orders of Options.Outcomes.
const (
	Earliest = stub.Earliest
	Latest   = stub.Latest
)

// MaxOutcomes bounds what is kept of one key and one partition.
const MaxOutcomes = stub.MaxOutcomes

// MaxDeadLetterBytes bounds what the outbox keeps of a rejected record's key, headers and value together.
const MaxDeadLetterBytes = outbox.MaxLetterBytes

// BackupMagic begins every backup.
const BackupMagic = backup.Magic

// NoTime is the watermark of a partition of which no event was applied.
const NoTime = ledger.NoTime

// SubjectHash is the digest of the value of a field.
func SubjectHash(field string, value []byte) Digest { return ledger.SubjectHash(field, value) }

// LockDir locks a state directory that exists. The error wraps ErrLocked and names the process that holds it, or
// fs.ErrNotExist if there is no such directory. If the directory is replaced during the call, the new one is locked.
func LockDir(dir string) (*Lock, error) { return storage.LockDir(dir) }

// LockFile locks a file, which it makes if it is absent. The error is that of LockDir.
func LockFile(name string) (*Lock, error) { return storage.LockFile(name) }

// FreeBytes returns what the file system of dir, or of the directory it will be made in, has free for this user.
func FreeBytes(dir string) (int64, error) { return storage.FreeBytes(dir) }

// FreeFiles returns how many more files (inodes) the file system of dir, or of the directory it will be made in, can
// take; the largest number where it does not count them.
func FreeFiles(dir string) (int64, error) { return storage.FreeFiles(dir) }

// PartitionOf returns the partition of a key of Head.Ledger, of a checkpoint or a time bound.
func PartitionOf(key []byte) (topic string, number int32, err error) { return mirror.PartitionOf(key) }

// WithProgress returns a context under which opening or restoring a store reports its progress to p. The store
// reports its later passes to p, too.
func WithProgress(ctx context.Context, p Progress) context.Context {
	return storage.WithProgress(ctx, p)
}
