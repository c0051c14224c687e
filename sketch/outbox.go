package sketch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxLetterBytes bounds what the outbox keeps of a rejected record's value.
const MaxLetterBytes = 1 << 10

// ErrOutboxFull: the outbox has no room for the rejected records of a part. Nothing of it was applied.
var ErrOutboxFull = errors.New("outbox is full")

// A Letter is a rejected record that waits in the outbox to be sent on. It was written in the transaction that counted the record, so that
// neither is there without the other.
type Letter struct {
	Topic       string
	Partition   int32
	Incarnation uint32 // of the topic, from 0
	Offset      int64
	Reason      string
	Time        int64  // time stamp of the record, milliseconds
	Size        int    // bytes of its value, -1 if it had none
	Payload     []byte // the first MaxLetterBytes of the value
}

// FitOutbox cuts a part before the first new rejected record that the outbox has no room for, and reports whether it did. Until the next
// Apply room can only grow. A store without an outbox (Options.OutboxRows is 0) never cuts.
func (s *Store) FitOutbox(p *Part) (cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, ok := s.places[partition{p.Topic, p.Partition}]
	if !ok {
		return false
	}
	_, i := p.fit(s.ledger[place].Next, s.room())
	if i < 0 {
		return false
	}
	p.Next = p.Records[i].Offset
	p.Records = p.Records[:i]
	return true
}

// OutboxRoom returns how many rejected records the outbox has room for, as of the last commit; math.MaxInt without an outbox. It does not
// wait for an Apply.
func (s *Store) OutboxRoom() int { return s.heads.room() }

// room is OutboxRoom with what is pending. The caller holds mu.
func (s *Store) room() int {
	if s.outboxRows == 0 {
		return math.MaxInt
	}
	return s.outboxRows - len(s.outbox)
}

// fit returns the room that is left after the part's rejected records from offset next on, and the index of the first for which there is none, or -1.
func (p *Part) fit(next int64, room int) (left, unfit int) {
	for i := range p.Records {
		r := &p.Records[i]
		if r.Fate != Rejected || r.Offset < next {
			continue
		}
		if room--; room < 0 {
			return room, i
		}
	}
	return room, -1
}

// post puts a rejected record into the outbox.
func (s *Store) post(l *LedgerRow, r *Record) {
	if s.outboxRows == 0 {
		return
	}
	key := letterKey(l.Topic, l.Partition, l.Incarnation, r.Offset)
	s.pending.put(key, true, func(b, key []byte) []byte { return appendLetter(b, key, r) })
	s.outbox = append(s.outbox, string(key))
}

// OutboxLen returns the number of letters.
func (s *Store) OutboxLen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.outbox)
}

// Letters returns copies of the oldest letters, at most limit.
func (s *Store) Letters(limit int) ([]Letter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	letters := make([]Letter, 0, min(limit, len(s.outbox)))
	err := s.backend.view(func(c cut) error {
		for _, key := range s.outbox[:cap(letters)] {
			value, err := c.get([]byte(key))
			if err != nil {
				return err
			}
			letter, err := decodeLetter([]byte(key), slices.Clone(value))
			if err != nil {
				return err
			}
			letters = append(letters, letter)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sketch: outbox: %w", err)
	}
	return letters, nil
}

// Forget removes letters that were sent, durably. Those that are not there any more are passed over.
func (s *Store) Forget(letters []Letter) error {
	sent := make(map[string]bool, len(letters))
	for i := range letters {
		l := &letters[i]
		sent[string(letterKey(l.Topic, l.Partition, l.Incarnation, l.Offset))] = true
	}
	_, err := s.dropLetters(func(key string) (bool, error) { return sent[key], nil })
	return err
}

// DropOutbox removes the letters that match, durably, and returns how many they were: the erasure of a subject. One that is being sent at
// this moment may still reach the topic.
func (s *Store) DropOutbox(match func(*Letter) bool) (dropped int, err error) {
	return s.dropLetters(func(key string) (drop bool, err error) {
		err = s.backend.view(func(c cut) error {
			value, err := c.get([]byte(key))
			if err != nil {
				return err
			}
			letter, err := decodeLetter([]byte(key), value)
			drop = err == nil && match(&letter)
			return err
		})
		return drop, err
	})
}

// dropLetters removes those letters that choose says, in as few transactions as their number allows.
func (s *Store) dropLetters(choose func(key string) (bool, error)) (dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	maxOps, _ := s.backend.limits()
	kept := make([]string, 0, len(s.outbox))
	for _, key := range s.outbox {
		drop, err := choose(key)
		if err != nil {
			s.pending.reset()
			return 0, s.stop(err)
		}
		if !drop {
			kept = append(kept, key)
			continue
		}
		s.pending.drop([]byte(key))
		dropped++
		if int64(len(s.pending.ops)) >= maxOps-8 {
			if err := s.commit(nil); err != nil {
				return dropped, err
			}
		}
	}
	s.outbox = kept
	s.show() // also if the last piece is empty
	return dropped, s.commit(nil)
}

// scanLetters reads the outbox of a cut and checks that each letter is of a record that the ledger counts.
func scanLetters(c cut, ledger []LedgerRow, visit func(key []byte)) error {
	rows := make(map[partition]*LedgerRow, len(ledger))
	for i := range ledger {
		at := partition{ledger[i].Topic, ledger[i].Partition}
		if newer := rows[at]; newer == nil || newer.Incarnation < ledger[i].Incarnation {
			rows[at] = &ledger[i]
		}
	}
	return c.each([]byte{prefixLetter}, func(key, value []byte) error {
		letter, err := decodeLetter(key, value)
		if err != nil {
			return err
		}
		l := rows[partition{letter.Topic, letter.Partition}]
		if l == nil || letter.Incarnation > l.Incarnation || letter.Incarnation == l.Incarnation && letter.Offset >= l.Next {
			return corrupt("the outbox has %s/%d offset %d, which the ledger has not", letter.Topic, letter.Partition, letter.Offset)
		}
		visit(key)
		return nil
	})
}

// A letter's key ends in partition u32 | incarnation u32 | offset u64, big-endian, after the topic and a zero byte.
const letterTailBytes = 4 + 4 + 8

func letterKey(topic string, partition int32, incarnation uint32, offset int64) []byte {
	b := append([]byte{prefixLetter}, topic...)
	b = binary.BigEndian.AppendUint32(append(b, 0), uint32(partition))
	b = binary.BigEndian.AppendUint32(b, incarnation)
	return binary.BigEndian.AppendUint64(b, uint64(offset))
}

// appendLetter appends time u64 | size of the value u32, all ones for none | reason length u8 | reason | payload | CRC u32, big-endian.
func appendLetter(b, key []byte, r *Record) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time))
	b = binary.BigEndian.AppendUint32(b, uint32(int32(r.Size)))
	b = append(append(b, byte(len(r.Reason))), r.Reason...)
	b = append(b, r.Payload...)
	return seal(key, b, from)
}

// decodeLetter returns a letter whose payload aliases value.
func decodeLetter(key, value []byte) (Letter, error) {
	b, err := unseal(key, value)
	if err != nil {
		return Letter{}, err
	}
	const header = 8 + 4 + 1
	tail := len(key) - letterTailBytes
	if tail < 3 || key[0] != prefixLetter || key[tail-1] != 0 || len(b) < header || len(b) < header+int(b[12]) || len(b)-header-int(b[12]) > MaxLetterBytes {
		return Letter{}, corrupt("letter at key %q has %d bytes", key, len(b))
	}
	n := header + int(b[12])
	return Letter{
		Topic: string(key[1 : tail-1]), Partition: int32(binary.BigEndian.Uint32(key[tail:])),
		Incarnation: binary.BigEndian.Uint32(key[tail+4:]), Offset: int64(binary.BigEndian.Uint64(key[tail+8:])),
		Time: int64(binary.BigEndian.Uint64(b)), Size: int(int32(binary.BigEndian.Uint32(b[8:]))),
		Reason: string(b[header:n]), Payload: b[n:],
	}, nil
}
