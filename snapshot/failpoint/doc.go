// Package failpoint makes a process fail at named durable steps, for tests of what a restart finds. Without the build
// tag failpoint it is empty: At returns nil, and the environment is not read.
//
// With the tag, the environment variable FAIL holds sites and what happens there, separated by semicolons:
//
//	FAIL=sketch.commit=kill,0.01,7;snapshot.renamed=sleep:200
//
// An action is kill (SIGKILL), fault (a fatal error of the runtime), error, panic, sleep:MILLISECONDS or fill:MEBIBYTES
// of memory. At a site that sees records, @PARTITION/OFFSET after the action is the only one it happens at. The number
// after it is the probability that it happens, 1 if not given, and the last one the seed of that decision.
package failpoint

// The sites. A test kills at each. Package snapshot writes its sites as literals, also those that only its tests ask
// for.
const (
	// while the state is opened; after an error there its commits are not synchronised
	SketchSync      = "sketch.sync"
	SketchCommit    = "sketch.commit"    // before the transaction with rows and ledger
	SketchCommitted = "sketch.committed" // after it, before anybody knows
	ConsumerBetween = "consumer.between" // between the transactions of two partitions of one answer
	ConsumerOffsets = "consumer.offsets" // before offsets are committed to the group
	SnapshotWrite   = "snapshot.write"   // after each file of a version
	SnapshotSynced  = "snapshot.synced"  // all files durable, the version not yet visible
	SnapshotRenamed = "snapshot.renamed" // the version visible, its directory not yet durable, "latest" still the old one
	SnapshotAlias   = "snapshot.alias"   // after an alias moved
	SnapshotLogged  = "snapshot.logged"  // the publish log has its line
	DeadLettersSend = "deadletters.send" // rejected records are in the outbox, not yet sent
	DeadLettersSent = "deadletters.sent" // they were acknowledged and are still in the outbox
	IngestRecord    = "ingest.record"    // before a record is decoded
	TrainFit        = "train.fit"        // a refit has its sample
	DaemonKeep      = "daemon.keep"      // a version promoted, what its refit leaves to the next not yet kept
	DaemonShutdown  = "daemon.shutdown"  // everything has stopped, the state is still open
)

// Sites lists them all.
var Sites = []string{
	SketchSync,
	SketchCommit,
	SketchCommitted,
	ConsumerBetween,
	ConsumerOffsets,
	SnapshotWrite,
	SnapshotSynced,
	SnapshotRenamed,
	SnapshotAlias,
	SnapshotLogged,
	DeadLettersSend,
	DeadLettersSent,
	IngestRecord,
	TrainFit,
	DaemonKeep,
	DaemonShutdown,
}
