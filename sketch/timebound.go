package sketch

import (
	"fmt"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/piece"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// bind notes that the time of an applied record was bounded. Records with the same bound share one.
func (s *Store) bind(place int32, r *Record) {
	b := s.bounds[place]
	if b == nil || b.Latest != r.Bound {
		b = &piece.Bound{TimeBound: TimeBound{From: r.Offset, Latest: r.Bound}, Place: place}
		s.bounds[place] = b
	}
	b.To = r.Offset + 1
	s.pending.PutBound(b, s.ledger.At(place).Topic)
}

// TimeBounds returns the bounds of a partition, in the order of offsets.
func (s *Store) TimeBounds(topic string, number int32) (out []TimeBound, err error) {
	s.mu.Lock()
	place, ok := s.ledger.Current(topic, number)
	var prefix []byte
	if ok {
		prefix = codec.BoundPrefix(s.ledger.At(place))
	}
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("sketch: %s/%d: partition was not begun: %w", topic, number, ErrPart)
	}
	err = s.backend.View(func(c storage.Cut) error {
		return c.Each(prefix, func(key, value []byte) error {
			b, err := codec.DecodeBound(key, value)
			out = append(out, b)
			return err
		})
	})
	return out, err
}

// Newest returns the newest event time that is applied of a partition at the last commit, in milliseconds; NoTime if
// no applied event has a time. It does not wait for an Apply.
func (s *Store) Newest(topic string, number int32) int64 {
	if h := s.heads.of(ledger.Partition{Topic: topic, Number: number}); h.begun {
		return h.watermark
	}
	return NoTime
}

// loadBounds finds the last bound of the partitions begun.
func (s *Store) loadBounds(c storage.Cut) error {
	for place := range int32(s.ledger.Size()) {
		l := s.ledger.At(place)
		if l.Archived {
			continue
		}
		err := c.Each(codec.BoundPrefix(l), func(key, value []byte) error {
			b, err := codec.DecodeBound(key, value)
			s.bounds[place] = &piece.Bound{TimeBound: b, Place: place}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
