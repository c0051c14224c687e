package verify

import (
	"crypto/sha256"
	"fmt"

	"github.com/refitd/refitd/sketch"
)

type partition struct {
	topic  string
	number int32
}

// row is what the sample keeps of an event; a hash stands for its payload.
type row struct {
	role    sketch.Role
	time    int64
	weight  float64
	payload [16]byte
}

func newRow(role sketch.Role, at int64, weight float64, payload []byte) row {
	sum := sha256.Sum256(payload)
	return row{role, at, weight, [16]byte(sum[:])}
}

// rows are those of a sample by partition and offset: about 100 bytes each.
type rows map[partition]map[int64]row

// rowsOf returns the rows that a store has of the topics as they are now, not of those they were made anew from.
func rowsOf(s *sketch.Store, ledger []sketch.LedgerRow) (rows, error) {
	sample, err := s.Sample()
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	incarnation := make(map[partition]uint32, len(ledger))
	for i := range ledger {
		incarnation[partition{ledger[i].Topic, ledger[i].Partition}] = ledger[i].Incarnation
	}
	out := make(rows)
	for role, list := range map[sketch.Role][]sketch.Row{sketch.Train: sample.Train, sketch.Select: sample.Select, sketch.Gate: sample.Gate} {
		for i := range list {
			r := &list[i]
			of := partition{r.Topic, r.Partition}
			if n, ok := incarnation[of]; !ok || n != r.Incarnation {
				continue
			}
			if out[of] == nil {
				out[of] = make(map[int64]row)
			}
			out[of][r.Offset] = newRow(role, r.Time, r.Weight, r.Payload)
		}
	}
	return out, nil
}

// check compares the rows of a partition with the events of a part of its log, and returns how many are not what the log has at their offset.
func (r rows) check(p *sketch.Part) (altered int64) {
	kept := r[partition{p.Topic, p.Partition}]
	if len(kept) == 0 {
		return 0
	}
	for i := range p.Records {
		rec := &p.Records[i]
		have, ok := kept[rec.Offset]
		if ok && (rec.Fate != sketch.Applied || have != newRow(rec.Role, rec.Time, rec.Weight, rec.Payload)) {
			altered++
		}
	}
	return altered
}
