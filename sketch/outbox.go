package sketch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/storage"
)

// MaxDeadLetterBytes bounds what the outbox keeps of a rejected record's value.
const MaxDeadLetterBytes = 1 << 10

// ErrOutboxFull: the outbox has no room for the rejected records of a part. Nothing of it was applied.
var ErrOutboxFull = errors.New("outbox is full")

// A DeadLetter is a rejected record that waits in the outbox to be sent on. It was written in the transaction that
// counted the record, so that neither is there without the other.
type DeadLetter struct {
	Topic       string
	Partition   int32
	Incarnation uint32 // of the topic, from 0
	Offset      int64
	Reason      string
	Detail             // empty where the record had none, or was rejected by a build that kept none
	Time        int64  // time stamp of the record, milliseconds
	Size        int    // bytes of its value, -1 if it had none
	Payload     []byte // the first MaxDeadLetterBytes of the value
}

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
	key := deadLetterKey(l.Topic, l.Partition, l.Incarnation, r.Offset)
	s.pending.put(key, true, func(b, key []byte) []byte { return appendDeadLetter(b, key, r) })
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
			letter, err := deadLetterAt(c, key)
			if err != nil {
				return err
			}
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
		sent[string(deadLetterKey(l.Topic, l.Partition, l.Incarnation, l.Offset))] = true
	}
	_, err := s.dropDeadLetters(func(key string) (bool, error) { return sent[key], nil })
	return err
}

// DropOutbox removes the dead letters that match, durably, and returns how many they were: the erasure of a subject.
// One that is being sent at this moment may still reach the topic.
func (s *Store) DropOutbox(match func(*DeadLetter) bool) (dropped int, err error) {
	return s.dropDeadLetters(func(key string) (drop bool, err error) {
		err = s.backend.View(func(c storage.Cut) error {
			letter, err := deadLetterAt(c, key)
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

// scanDeadLetters reads the outbox of a cut and checks that each dead letter is of a record that the ledger counts.
func scanDeadLetters(c storage.Cut, accounts []ledger.Account, visit func(key []byte)) error {
	rows := make(map[ledger.Partition]*ledger.Account, len(accounts))
	for i := range accounts {
		at := ledger.Partition{Topic: accounts[i].Topic, Number: accounts[i].Partition}
		if newer := rows[at]; newer == nil || newer.Incarnation < accounts[i].Incarnation {
			rows[at] = &accounts[i]
		}
	}
	return c.Each([]byte{codec.PrefixDeadLetter}, func(key, value []byte) error {
		letter, err := decodeDeadLetter(key, value)
		if err != nil {
			return err
		}
		l := rows[ledger.Partition{Topic: letter.Topic, Number: letter.Partition}]
		if l == nil || letter.Incarnation > l.Incarnation ||
			letter.Incarnation == l.Incarnation && letter.Offset >= l.Next {
			return fault.Corrupt("the outbox has %s/%d offset %d, which the ledger has not", letter.Topic, letter.Partition,
				letter.Offset)
		}
		visit(key)
		return nil
	})
}

// A dead letter's key ends in partition u32 | incarnation u32 | offset u64, big-endian, after the topic and a zero
// byte.
const deadLetterTailBytes = 4 + 4 + 8

func deadLetterKey(topic string, partition int32, incarnation uint32, offset int64) []byte {
	b := append([]byte{codec.PrefixDeadLetter}, topic...)
	b = binary.BigEndian.AppendUint32(append(b, 0), uint32(partition))
	b = binary.BigEndian.AppendUint32(b, incarnation)
	return binary.BigEndian.AppendUint64(b, uint64(offset))
}

// appendDeadLetter appends time u64 | size of the value u32, all ones for none | reason length u8 | reason | payload
// | CRC u32, big-endian. With a detail, what was expected, what came and the field follow the reason, each after a
// zero byte.
func appendDeadLetter(b, key []byte, r *Record) []byte {
	from := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time))
	b = binary.BigEndian.AppendUint32(b, uint32(int32(r.Size)))
	at := len(b)
	b = append(append(b, 0), r.Reason...)
	if d := r.Detail; d != nil {
		b = append(append(append(b, 0), d.Expected...), 0)
		b = append(append(b, d.Got...), 0)
		b = append(b, cutText(d.Field, math.MaxUint8-(len(b)-at-1))...)
	}
	b[at] = byte(len(b) - at - 1)
	b = append(b, r.Payload...)
	return codec.Seal(key, b, from)
}

// cutText returns the beginning of a text that has at most limit bytes and no half of a character.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

func deadLetterAt(c storage.Cut, key string) (DeadLetter, error) {
	value, err := c.Get([]byte(key))
	if err != nil {
		return DeadLetter{}, err
	}
	return decodeDeadLetter([]byte(key), value)
}

// decodeDeadLetter returns a dead letter whose payload aliases value.
func decodeDeadLetter(key, value []byte) (DeadLetter, error) {
	b, err := codec.Unseal(key, value)
	if err != nil {
		return DeadLetter{}, err
	}
	const header = 8 + 4 + 1
	tail := len(key) - deadLetterTailBytes
	if tail < 3 || key[0] != codec.PrefixDeadLetter || key[tail-1] != 0 || len(b) < header || len(b) < header+int(b[12]) ||
		len(b)-header-int(b[12]) > MaxDeadLetterBytes {
		return DeadLetter{}, fault.Corrupt("dead letter at key %q has %d bytes", key, len(b))
	}
	n := header + int(b[12])
	reason, detail := string(b[header:n]), Detail{}
	if parts := strings.SplitN(reason, "\x00", 4); len(parts) == 4 {
		reason, detail = parts[0], Detail{Expected: parts[1], Got: parts[2], Field: parts[3]}
	}
	return DeadLetter{
		Topic: string(key[1 : tail-1]), Partition: int32(binary.BigEndian.Uint32(key[tail:])),
		Incarnation: binary.BigEndian.Uint32(key[tail+4:]), Offset: int64(binary.BigEndian.Uint64(key[tail+8:])),
		Time: int64(binary.BigEndian.Uint64(b)), Size: int(int32(binary.BigEndian.Uint32(b[8:]))),
		Reason: reason, Detail: detail, Payload: b[n:],
	}, nil
}
