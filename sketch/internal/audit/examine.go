package audit

import (
	"bytes"
	"context"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/mirror"
	"github.com/refitd/refitd/sketch/internal/outbox"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/storage"
	"github.com/refitd/refitd/sketch/internal/stub"
)

// A State describes a store: what two copies that read the same log under the same settings agree on, but for Lineage
// and ConfigHash.
type State struct {
	Lineage          string
	ConfigHash       string
	Format           int
	Rows             [ledger.NumRoles]int // by role
	SampleBytes      int64                // stored keys and values of the rows
	SampleDigest     ledger.Digest        // of the rows: training and held-out
	RejectedByReason map[string]int64
	Partitions       []ledger.Row    // by topic and partition
	Archived         []ledger.Row    // of earlier incarnations of recreated topics, whose rows may still be in the sample
	Forgotten        []ledger.Marker // by field and hash
	// UnderFilled says that an erasure or a larger size left room in a sample, at the positions Since, that has not
	// been filled up since: it holds the events above its threshold, which are fewer than its size.
	UnderFilled bool
	Since       []ledger.Position
	// OfLog says that the samples can be recomputed from the log. They cannot where rows are of an earlier incarnation
	// of a topic, or an erasure met a cap.
	OfLog     bool
	Stubs     int    // identities with outcomes that are kept
	Joined    int    // those of them whose event is in the sample
	Watermark int64  // newest event time applied, milliseconds; NoTime if none
	Memo      []byte // of the last share merged: Share.Memo
}

// Holdout returns the number of held-out rows.
func (s *State) Holdout() int { return s.Rows[ledger.Select] + s.Rows[ledger.Gate] }

// State reads a cut, with every row for the digest: about 1 µs each.
func (f *Frame) State(c storage.Cut) (*State, error) {
	digest := NewDigest()
	rows := make(map[codec.RowKey]bool)
	acc, err := f.Scan(context.Background(), c, func(row *Scanned) error {
		digest.Add(row)
		if f.Settings.Joined() {
			rows[codec.MakeRowKey(row.Role, row.ID)] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &State{Format: codec.FormatVersion, Watermark: ledger.NoTime}
	err = f.ScanStubs(c, acc, func(role ledger.Role, id policy.Identity, of *stub.Stub, key []byte) error {
		digest.AddStub(key, of)
		if len(of.Outcomes()) > 0 {
			out.Stubs++
			if rows[codec.MakeRowKey(role, id)] {
				out.Joined++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Rows, out.SampleBytes, out.SampleDigest = digest.rows, digest.bytes, digest.Sum()
	out.RejectedByReason = acc.Reasons
	out.Partitions, out.Archived = ledger.RowsOf(acc.Ledger[:acc.Current]), ledger.RowsOf(acc.Ledger[acc.Current:])
	out.Forgotten = acc.Markers
	settings := acc.Settings
	out.Lineage, out.ConfigHash, out.OfLog = settings.Lineage, settings.ConfigHash, !settings.NotOfLog
	if settings.Partial && slices.ContainsFunc(f.Samples.All, func(r *reservoir.Reservoir) bool {
		return !r.Stubs && acc.Found[r.Index] < int64(r.Capacity)
	}) {
		out.UnderFilled, out.Since = true, settings.Since
	}
	for i := range acc.Ledger {
		out.Watermark = max(out.Watermark, acc.Ledger[i].Watermark)
	}
	if _, out.Memo, _, err = mirror.Merged(c); err != nil {
		return nil, err
	}
	return out, nil
}

// Check reads everything in a cut and returns an error wrapping ErrCorrupt at the first violation of I3 or I4, and
// where a row's key is not the keyed hash of its identity.
func (f *Frame) Check(c storage.Cut) error {
	draw := policy.NewDrawer(f.Settings.Seed, f.Settings.HoldoutFraction)
	acc, err := f.Scan(context.Background(), c, func(row *Scanned) error {
		if f.Settings.Identity != "" { // its bytes are not kept
			return nil
		}
		sum := draw.ByOffset(string(row.Topic), row.Incarnation, row.Partition, row.Offset)
		if !bytes.Equal(sum[:16], row.ID[:]) || f.Settings.HoldoutBy == "" && draw.Role(&sum) != row.Role {
			return fault.Corrupt("row of %s/%d offset %d is not at its key", row.Topic, row.Partition, row.Offset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	keep := func(ledger.Role, policy.Identity, *stub.Stub, []byte) error { return nil }
	if err := f.ScanStubs(c, acc, keep); err != nil {
		return err
	}
	if err := outbox.Scan(c, acc.Ledger, func([]byte) {}); err != nil {
		return err
	}
	entity := func(string, int32, codec.Entity) error { return nil }
	if err := codec.EachEntity(c, []byte{codec.PrefixEntity}, entity); err != nil {
		return err
	}
	if err := codec.EachSchema(c, func(codec.Schema) error { return nil }); err != nil {
		return err
	}
	var reasons, rejected int64
	for _, n := range acc.Reasons {
		reasons += n
	}
	for i := range acc.Ledger {
		rejected += acc.Ledger[i].Rejected
	}
	if reasons > rejected ||
		reasons < rejected && !acc.Settings.NotOfLog { // of what is before a checkpoint the reasons are not known
		return fault.Corrupt("%d records rejected by reason, %d by partition", reasons, rejected)
	}
	return nil
}
