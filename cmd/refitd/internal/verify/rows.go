package verify

import (
	"crypto/sha256"
	"fmt"

	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/sketch"
)

type partition struct {
	topic  string
	number int32
}

// row is what the sample keeps of an event, with hashes in place of the payloads: as it is, and without derived fields.
type row struct {
	role    sketch.Role
	time    int64
	weight  float64
	payload [16]byte
	given   [16]byte
}

// hasher makes rows. given returns a payload without its derived fields.
type hasher struct {
	given func(payload []byte) ([]byte, error)
}

func (h hasher) row(role sketch.Role, at int64, weight float64, payload []byte) (row, error) {
	given, err := h.given(payload)
	if err != nil {
		return row{}, fmt.Errorf("verify: %w", err)
	}
	sum, of := sha256.Sum256(payload), sha256.Sum256(given)
	return row{role, at, weight, [16]byte(sum[:]), [16]byte(of[:])}, nil
}

// rows are those of a sample by partition and offset: about 100 bytes each.
type rows map[partition]map[int64]row

// rowsOf returns the rows that a store has of the topics as they are now, not of those they were made anew from.
func (h hasher) rowsOf(s *sketch.Store, ledger []sketch.LedgerRow, meter *progress.Meter) (rows, error) {
	meter.Stage("reading the rows", "", 0)
	sample, err := s.Sample()
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	meter.Stage("hashing the rows", "rows", int64(len(sample.Train)+len(sample.Select)+len(sample.Gate)))
	incarnation := make(map[partition]uint32, len(ledger))
	for i := range ledger {
		incarnation[partition{ledger[i].Topic, ledger[i].Partition}] = ledger[i].Incarnation
	}
	out := make(rows)
	for role, list := range map[sketch.Role][]sketch.Row{sketch.Train: sample.Train, sketch.Select: sample.Select,
		sketch.Gate: sample.Gate} {
		for i := range list {
			r := &list[i]
			meter.Add(1)
			of := partition{r.Topic, r.Partition}
			if n, ok := incarnation[of]; !ok || n != r.Incarnation {
				continue
			}
			if out[of] == nil {
				out[of] = make(map[int64]row)
			}
			if out[of][r.Offset], err = h.row(role, r.Time, r.Weight, r.Payload); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// check compares the rows of a partition with the events of a part of its log, and returns how many are not what the
// log has at their offset. Derived fields are compared only if they are known: if the log has been read from where the
// state began.
func (h hasher) check(r rows, p *sketch.Part, derived bool) (altered int64, err error) {
	kept := r[partition{p.Topic, p.Partition}]
	if len(kept) == 0 {
		return 0, nil
	}
	for i := range p.Records {
		rec := &p.Records[i]
		have, ok := kept[rec.Offset]
		switch {
		case !ok:
			continue
		case rec.Fate != sketch.Applied:
			altered++
			continue
		}
		want, err := h.row(rec.Role, rec.Time, rec.Weight, rec.Payload)
		if err != nil {
			return 0, err
		}
		if !derived {
			want.payload = have.payload
		}
		if have != want {
			altered++
		}
	}
	return altered, nil
}
