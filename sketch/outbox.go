package sketch

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/outbox"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// ErrOutboxFull: the outbox has no room for the rejected records of a part. Nothing of it was applied.
var ErrOutboxFull = errors.New("outbox is full")

// FitOutbox cuts a part before the first new rejected record that the outbox has no room for, and reports whether it
// did. Until the next Apply room can only grow. A store without an outbox (Options.OutboxRows is 0) never cuts.
func (s *Store) FitOutbox(p *Part) (cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, ok := s.ledger.Current(p.Topic, p.Partition)
	if !ok {
		return false
	}
	_, i := p.fit(s.ledger.At(place).Next, s.room())
	if i < 0 {
		return false
	}
	p.Next = p.Records[i].Offset
	p.Records = p.Records[:i]
	return true
}

// OutboxRoom returns how many rejected records the outbox has room for at the last commit; math.MaxInt without an
// outbox. It does not wait for an Apply.
func (s *Store) OutboxRoom() int { return s.heads.room() }

// room is OutboxRoom with what is pending. The caller holds mu.
func (s *Store) room() int {
	if s.outboxRows == 0 {
		return math.MaxInt
	}
	return s.outboxRows - len(s.outbox)
}

// fit returns the room that is left after the part's rejected records from offset next on, and the index of the first
// one without room, or -1.
func (p *Part) fit(next int64, room int) (left, unfit int) {
	for i := range p.Records {
		r := &p.Records[i]
		if r.Fate != Rejected || r.Quiet || r.Offset < next {
			continue
		}
		if room--; room < 0 {
			return room, i
		}
	}
	return room, -1
}

// post puts a rejected record into the outbox.
func (s *Store) post(l *ledger.Account, r *Record) {
	if s.outboxRows == 0 || r.Quiet {
		return
	}
	key := outbox.Key(l.Topic, l.Partition, l.Incarnation, r.Offset)
	letter := &DeadLetter{Reason: r.Reason, Time: r.Time, Size: r.Size, Payload: r.Payload}
	s.pending.Put(key, true, func(b, key []byte) []byte { return outbox.Append(b, key, letter, r.Detail) })
	s.outbox = append(s.outbox, string(key))
}

// OutboxLen returns the number of dead letters.
func (s *Store) OutboxLen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.outbox)
}

// LettersWait returns what reports whether a dead letter that waits now still does. Later ones do not count. Each call
// costs O(dead letters).
func (s *Store) LettersWait() (still func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := make(map[string]bool, len(s.outbox))
	for _, key := range s.outbox {
		now[key] = true
	}
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(now) > 0 && slices.ContainsFunc(s.outbox, func(key string) bool { return now[key] })
	}
}

// DeadLetters returns copies of the oldest dead letters, at most limit.
func (s *Store) DeadLetters(limit int) ([]DeadLetter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	letters := make([]DeadLetter, 0, min(limit, len(s.outbox)))
	err := s.backend.View(func(c storage.Cut) error {
		for _, key := range s.outbox[:cap(letters)] {
			letter, err := outbox.At(c, key)
			if err != nil {
				return err
			}
			letter.Key, letter.Headers = slices.Clone(letter.Key), slices.Clone(letter.Headers)
			letter.Payload = slices.Clone(letter.Payload)
			letters = append(letters, letter)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sketch: outbox: %w", err)
	}
	return letters, nil
}

// Forget removes dead letters that were sent, durably. Those that are not there any more are passed over.
func (s *Store) Forget(letters []DeadLetter) error {
	sent := make(map[string]bool, len(letters))
	for i := range letters {
		l := &letters[i]
		sent[string(outbox.Key(l.Topic, l.Partition, l.Incarnation, l.Offset))] = true
	}
	_, err := s.dropDeadLetters(func(key string) (bool, error) { return sent[key], nil })
	return err
}

// DropOutbox removes the dead letters that match, durably, and returns how many they were: the erasure of a subject.
// One that is being sent at this moment may still reach the topic.
func (s *Store) DropOutbox(match func(*DeadLetter) bool) (dropped int, err error) {
	return s.dropDeadLetters(func(key string) (drop bool, err error) {
		err = s.backend.View(func(c storage.Cut) error {
			letter, err := outbox.At(c, key)
			drop = err == nil && match(&letter)
			return err
		})
		return drop, err
	})
}

// dropDeadLetters removes those dead letters that choose says, in as few transactions as their number allows.
func (s *Store) dropDeadLetters(choose func(key string) (bool, error)) (dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	maxOps, _ := s.backend.Limits()
	kept := make([]string, 0, len(s.outbox))
	for _, key := range s.outbox {
		drop, err := choose(key)
		if err != nil {
			s.pending.Reset()
			return 0, s.stop(err)
		}
		if !drop {
			kept = append(kept, key)
			continue
		}
		s.pending.Drop([]byte(key))
		dropped++
		if int64(len(s.pending.Ops)) >= maxOps-8 {
			if err := s.commit(nil); err != nil {
				return dropped, err
			}
		}
	}
	s.outbox = kept
	s.show() // also if the last piece is empty
	return dropped, s.commit(nil)
}
