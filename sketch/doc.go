// Package sketch keeps a bounded sample of an event log together with the accounts that prove what the sample was made
// of.
//
// The sample is a bottom-k (exponential-key) sample: each applied event has a priority that depends on its identity,
// its weight, its time and a seed, and the R events of largest priority are kept. It is therefore a function of the
// set of applied events, not of the order or the number of times they arrived. Efraimidis and Spirakis 2006
// (weights); Cormode, Shkapenyuk, Srivastava and Xu 2009 (forward decay). Held-out events go to two separate samples,
// which training never sees.
//
// Under quotas each class is a separate sample; under a cap the rows are the best among the best of each entity. An
// erasure, or a larger size, leaves a sample under-filled: it holds the events above its threshold until they fill
// it. Either starts a new lineage.
//
// Outcomes of events, which come in other topics, are joined to the rows by identity: join.go says how.
//
// The ledger has one row for each partition: start, next, what became of each offset between them, and a digest chained
// over the records. Rows, counts and ledger change in one transaction, so a state is always that of a log prefix.
//
// The package knows nothing of Kafka, of schemas or of models: payloads are opaque bytes, and the caller decides what
// an event's fate, weight, time and identity are.
//
// # Rooms
//
// The package is the Store: it opens and closes, decides what changes together, and commits it. The rest is in rooms
// below internal, of which each says in its comment what it does not do. A room imports those above it:
//
//	fault      errors that callers branch on
//	storage    keys and values on disk or in memory; locks, file systems
//	ledger     accounts of partitions, checkpoints, markers
//	policy     hashes, ranks, settings
//	codec      keys and values of the state
//	stub       what came of the event of one key
//	reservoir  what is kept in memory of the rows
//	outbox     rejected records that wait to be sent
//	piece      what one transaction will write
//	mirror     what a copy elsewhere lacks
//	share      what a shard has sent, checked
//	audit      a cut, read and checked
//	sample     a copy of the rows for training
//	witness    how far the state had come
//	backup     a whole state in one file
//
// All fields of a Store below its mutex, and what of them is of a room, are guarded by that mutex, but for heads, which
// has another, so that a reader need not wait for a commit. A cut is read without it.
//
// # Invariants
//
//	I1  next of a partition only grows
//	I2  rows, evictions, ledger, dead letters, entities and aux of a piece are written in one transaction
//	I3  applied + rejected + control + aborted + holes + gap = next - start
//	I4  rows of a role = min(capacity, eligible) unless under-filled, as the ledger counts them; each offset < next; each priority >= threshold; each CRC holds
//	I9  after a storage error nothing is written any more by this process
//
// # Keys
//
//	s                          settings: JSON, written once
//	c                          counters: thresholds, rejections by reason
//	a                          aux: opaque bytes of the caller
//	e topic 0x00 partition key    what the caller keeps of an entity; the key 32 bytes
//	f hash                     marker of a forgotten subject: JSON
//	h topic 0x00 partition incarnation        ledger row of a topic that was made again
//	j role id                  stub: outcomes of the event of an identity, whether or not it is in the sample
//	k topic 0x00 partition incarnation next   checkpoint: the ledger row as it was
//	l topic 0x00 partition     ledger row; the partition big-endian
//	m                          how far shares of shards were merged, as the caller counts
//	m shard                    counters of a shard whose rows were merged
//	m c shard                  what a shard whose partitions were taken up had counted by reason
//	n                          there are notes for a mirror
//	n number                   note: the keys that a transaction changed
//	o topic 0x00 partition incarnation offset    dead letter of the outbox
//	r role id                  sample row; role one byte, id the 16 bytes of the identity hash
//	t topic 0x00 partition incarnation from   time bound, from that offset on
//
// Every value ends in a CRC-32C over its key and itself, so a value moved to another key is noticed too.
//
// # Files
//
//	LOCK       locked while a process has the state open, with its id
//	WITNESS    how far the state had come: Badger loses the end of its log, or all of it, without an error
//	rows/      the database
//
// Open looks at the files of the database before Badger does, because Badger answers a full disk and damaged files by
// ending the process, and a missing MANIFEST by deleting its tables.
//
// # The proof
//
// TestHistories plays random histories (deliveries from anywhere, crashes, lost suffixes, truncation, compaction,
// copies, resizes, erasures, recreated topics, rebuilds) against an oracle that sorts everything anew;
// testdata/mutants.txt lists what it must notice, each with a seed that shows it, the bugs that this code once had
// among them.
package sketch
