package ingest

import (
	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/choices"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/ingest/negatives"
	"github.com/refitd/refitd/daemon/ingest/pasts"
)

// assumedPartitions are fetched at a time; more of them share the same buffers by waiting.
const assumedPartitions = 16

// decodedBytes is what parts take between the consumer and the store, which are of half a MiB of records and one more
// each: three that are decoded, where a name of one letter is twelve times as long as in its record, and what of them
// waits to be stored.
const decodedBytes = 48 << 20

// FetchFootprint returns the bytes of records on their way from the broker, in hand, fetched ahead and fetched again to
// confirm holes, with the largest batch decompressed, and of what they are decoded into.
func FetchFootprint(maxPartitionBytes int) int64 {
	return 3*assumedPartitions*int64(maxPartitionBytes) + int64(
		consumer.DefaultOptions().MaxDecompressedBytes) + decodedBytes
}

// What the past of an entity takes, and each name of its lists: a map entry, the past, slices and strings; a test
// compares them.
const (
	pastBytes     = 320
	pastNameBytes = 64
)

// PastsFootprint returns the bytes that derived fields take for the entities of some partitions of a model.
func PastsFootprint(m *config.Model) int64 {
	if len(m.Schema.Derived) == 0 {
		return 0
	}
	names := 1
	for i := range m.Schema.Derived {
		if d := &m.Schema.Derived[i]; d.Kind == string(event.Last) {
			names += d.K
		}
	}
	return assumedFull * pasts.MaxEntities * int64(pastBytes+pastNameBytes*names)
}

// SchemasFootprint returns the bytes that the schemas of a model's records take. It is 0 where these are JSON.
func SchemasFootprint(m *config.Model) int64 { return formats.Footprint(m, maxReaders) }

// What a row of a table takes without its bytes, in the set, its copies for a refit and for what is served, and the
// index of a version; and how many times its bytes are held. Counted from the types.
const (
	tableRowBytes  = 900
	tableRowCopies = 6
	// names of a list in a row, as rows of events are taken to have
	ordinaryNames = 8
)

// TablesFootprint returns the bytes that the tables of a model take for some partitions of their topics, and their
// columns in the rows of a refit.
func TablesFootprint(m *config.Model) (bytes int64) {
	for i := range m.Tables {
		t := &m.Tables[i]
		bytes += assumedFull * (tableRowBytes*int64(t.MaxRows) + tableRowCopies*int64(t.MaxBytes))
		names := len(t.Categorical) + ordinaryNames*len(t.Multi)
		bytes += int64(m.Sample.Size+m.Sample.Holdout.Size) *
			int64(rows.NameEntryBytes*names+16*len(t.Numeric)+32*len(t.Multi))
	}
	return bytes
}

// candidateBytes is what a name takes that negatives are drawn from, with its name, its place among the choices and
// what belongs to it.
const candidateBytes = 512

// ChoicesFootprint returns the bytes that negatives are drawn from: the names of the last choices, and those of a
// sample while it is taken; and of what lists of the daemon leave out. It is 0 for a model whose events have labels.
func ChoicesFootprint(m *config.Model) int64 {
	if m.ChosenField() < 0 {
		return 0
	}
	return candidateBytes*int64(negatives.Kept+m.Sample.Size+m.Sample.Holdout.Size) + choices.Footprint(negatives.Kept,
		int(m.Input.MaxIDBytes))
}

// OpenFootprint returns the bytes of the events that wait for their label.
func OpenFootprint(m *config.Model) int64 { return int64(rows.OpenBytes(m)) }

// assumedFull is how many partitions are taken to have as many entities as there may be: an entity is seen in one where
// its name is the key of records.
const assumedFull = 1
