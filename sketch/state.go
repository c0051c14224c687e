package sketch

import (
	"github.com/refitd/refitd/sketch/internal/audit"
	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/sample"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// frame returns what the cuts of the store are compared with.
func (s *Store) frame() *audit.Frame {
	return &audit.Frame{Samples: &s.samples, Settings: &s.settings, Progress: s.progress}
}

// State reads a consistent cut, with every row for the digest: about 1 µs each.
func (s *Store) State() (out *State, err error) {
	err = s.backend.View(func(c storage.Cut) error {
		out, err = s.frame().State(c)
		return err
	})
	return out, err
}

// Check reads everything and returns an error wrapping ErrCorrupt at the first violation of I3 or I4, and where a row's
// key is not the keyed hash of its identity.
func (s *Store) Check() error { return s.backend.View(s.frame().Check) }

// Sample copies a consistent cut. It takes about 1 µs and the payload's memory plus 80 bytes for a row; Apply may run
// concurrently.
func (s *Store) Sample() (out *Sample, err error) { return s.SampleWith(nil, nil) }

// SampleWith is Sample that also visits, as Entities does, the entities that all partitions of some topics have at the
// same cut.
func (s *Store) SampleWith(topics []string, visit func(topic string, number int32, e Entity) error) (out *Sample,
	err error) {
	rows, _ := s.Size()
	err = s.backend.View(func(c storage.Cut) error {
		if out, err = sample.Read(s.frame(), c, rows); err != nil {
			return err
		}
		for _, topic := range topics {
			if err := codec.EachEntity(c, codec.TopicEntities(topic), visit); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// entryOf returns what is kept in memory of a row, whose partition has a place in the ledger.
func (s *Store) entryOf(row *audit.Scanned, place int32) reservoir.Entry {
	return reservoir.MakeEntry(row.Rank, row.ID, place, row.Size(), uint32(s.costOf(row.Payload)))
}
