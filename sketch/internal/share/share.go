package share

import (
	"errors"
	"fmt"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/fault"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/mirror"
	"github.com/refitd/refitd/sketch/internal/policy"
	"github.com/refitd/refitd/sketch/internal/reservoir"
	"github.com/refitd/refitd/sketch/internal/stub"
)

// ErrBehind: the accounts to be merged are behind those that were. What the shard sends next to them is to be merged
// with a later head.
var ErrBehind = errors.New("behind what was merged")

// A Share is what a store that reads some of the partitions has sent of itself: excerpts of it up to one with a head.
type Share struct {
	Shard uint32
	Pairs []mirror.Pair
	Head  *mirror.Head
	// Resume is where the caller continues reading once this is merged. Memo is what it has to know then; see
	// Store.Merged.
	Resume int64
	Memo   []byte
	// Values returns the values that a payload has in a field, as for Erase: rows of forgotten subjects are left out.
	Values func(field string, payload []byte) ([][]byte, error)
	// Only takes some of the shard's partitions, into a store that is to be a shard itself: see Store.Taken. Nil takes
	// all.
	Only func(topic string, partition int32) bool
	// Carry takes what the shard has counted by reason along with Only. It is of no partition, so one of those that
	// share the shard's has to take it.
	Carry bool
}

// Takes reports whether a pair is of the partitions that are wanted. A row that is gone is of none: it is no change. A
// schema may be of any.
func (m *Share) Takes(p *mirror.Pair) bool {
	switch {
	case m.Only == nil:
		return true
	case len(p.Key) == 0:
		return false
	case p.Key[0] == codec.PrefixSchema:
		return true
	case p.Key[0] == codec.PrefixStub:
		of, err := stub.Decode(p.Key, p.Value)
		return p.Value != nil && err == nil && slices.ContainsFunc(of.Places(),
			func(o stub.Outcome) bool { return m.Only(o.Topic, o.Partition) })
	case p.Key[0] == codec.PrefixRow:
		row, err := codec.DecodeRow(p.Key, p.Value)
		return p.Value != nil && err == nil && m.Only(string(row.Topic), row.Partition)
	}
	topic, number, err := mirror.PartitionOf(p.Key)
	return err == nil && m.Only(topic, number)
}

// Account is a head, decoded.
type Account struct {
	Ledger   []ledger.Account // those of incarnations that are over first, as a Head has them
	Counters codec.Counters
}

// Read decodes and checks a share before anything of it is taken into a store with these settings and this ledger.
// Its error wraps ErrForeign, or ErrBehind.
func Read(m *Share, settings *policy.Settings, book *ledger.Book) (*Account, error) {
	foreign := func(format string, args ...any) error {
		return fmt.Errorf("sketch: merge shard %d: %w: %w", m.Shard, mirror.ErrForeign, fmt.Errorf(format, args...))
	}
	if m.Head == nil {
		return nil, foreign("it has no head")
	}
	theirs, err := codec.DecodeSettings([]byte{codec.PrefixSettings}, m.Head.Settings)
	if err != nil {
		return nil, foreign("%w", err)
	}
	if err := settings.Agrees(theirs); err != nil {
		return nil, foreign("%w", err)
	}
	h := new(Account)
	if h.Counters, err = readCounters(m.Head, settings); err != nil {
		return nil, foreign("%w", err)
	}
	behind := ""
	for _, p := range m.Head.Ledger {
		if !m.Takes(&p) {
			continue
		}
		l, err := codec.DecodeAccount(p.Key, p.Value)
		if err == nil {
			err = l.Audit()
		}
		if err != nil {
			return nil, foreign("%w", err)
		}
		if place := book.Place(l.Topic, l.Partition, l.Incarnation); place >= 0 {
			own := book.At(place)
			if err := agree(&l, own); err != nil {
				return nil, foreign("%w", err)
			}
			if l.Next < own.Next {
				behind = fmt.Sprintf("%s/%d is at offset %d, here at %d", l.Topic, l.Partition, l.Next, own.Next)
			}
		}
		h.Ledger = append(h.Ledger, l)
	}
	if behind != "" {
		return nil, fmt.Errorf("sketch: merge shard %d: %s: %w", m.Shard, behind, ErrBehind)
	}
	for i := range m.Pairs {
		if _, err := CheckPair(&m.Pairs[i], settings); err != nil {
			return nil, foreign("%w", err)
		}
	}
	return h, nil
}

// readCounters returns the counters of a head, all 0 if it has none.
func readCounters(h *mirror.Head, settings *policy.Settings) (codec.Counters, error) {
	if len(h.Counters) == 0 {
		return codec.Counters{Reasons: map[string]int64{}}, nil
	}
	c, err := codec.DecodeCounters([]byte{codec.PrefixCounters}, h.Counters)
	if err != nil {
		return c, err
	}
	n := len(settings.Quotas)
	if settings.Joined() {
		n += int(ledger.NumRoles)
	}
	if len(c.Classes) != n {
		return c, fmt.Errorf("it counts %d classes of %d", len(c.Classes), n)
	}
	return c, nil
}

// agree returns how a shard's account contradicts the one here.
func agree(theirs, own *ledger.Account) error {
	switch {
	case own.Start != theirs.Start:
		return fmt.Errorf("%s/%d begins at offset %d, here at %d", theirs.Topic, theirs.Partition, theirs.Start, own.Start)
	case own.Next == theirs.Next && own.Digest != theirs.Digest:
		return fmt.Errorf("%s/%d has digest %s at offset %d, here %s", theirs.Topic, theirs.Partition, theirs.Digest,
			theirs.Next, own.Digest)
	}
	return nil
}

// CheckPair decodes a pair, and returns its row where it is one that is not gone.
func CheckPair(p *mirror.Pair, settings *policy.Settings) (*codec.Row, error) {
	if len(p.Key) == 0 || !codec.IsMirrored(p.Key) {
		return nil, fmt.Errorf("it has a key %.40q", p.Key)
	}
	if p.Key[0] == codec.PrefixSchema {
		_, err := codec.Unseal(p.Key, p.Value) // none is ever taken out
		return nil, err
	}
	if p.Key[0] == codec.PrefixStub {
		if _, _, ok := stub.ParseKey(p.Key); !ok || !settings.Joined() {
			return nil, fmt.Errorf("outcomes at key %.40x", p.Key)
		}
		if p.Value == nil {
			return nil, nil //nolint:nilnil // there is no row
		}
		_, err := stub.Decode(p.Key, p.Value)
		return nil, err
	}
	if p.Key[0] != codec.PrefixRow {
		_, _, err := mirror.PartitionOf(p.Key)
		if err == nil && p.Value != nil {
			_, err = codec.Unseal(p.Key, p.Value)
		}
		return nil, err
	}
	if _, _, ok := codec.ParseRowKey(p.Key); !ok {
		return nil, fault.Corrupt("row at key %.40x", p.Key)
	}
	if p.Value == nil {
		return nil, nil //nolint:nilnil // a row that is gone has nothing to return
	}
	row, err := codec.DecodeRow(p.Key, p.Value)
	if err != nil {
		return nil, err
	}
	if settings.Grouped() != (row.Group != policy.Identity{}) {
		return nil, fmt.Errorf("row of %s/%d offset %d does not fit the quotas or the cap", row.Topic, row.Partition,
			row.Offset)
	}
	return &row, nil
}

// A held row is of a shard, and here or about to be.
type held struct {
	role ledger.Role
	id   policy.Identity
}

// Lacks returns how many of the rows that a shard has are neither among the samples nor among the pairs of a share.
func Lacks(m *Share, h *Account, samples *reservoir.Samples, book *ledger.Book) (n int64) {
	rows, ends, of := map[ledger.Incarnation]int64{}, map[ledger.Incarnation]int64{}, map[held]ledger.Incarnation{}
	for i := range h.Ledger {
		l := &h.Ledger[i]
		at := l.At()
		rows[at], ends[at] = l.Rows[ledger.Train]+l.Rows[ledger.Select]+l.Rows[ledger.Gate], l.Next
	}
	for i, r := range samples.All[:int(ledger.NumRoles)+len(h.Counters.Classes)] {
		evicted, threshold := h.Counters.Of(i)
		for _, e := range r.Entries {
			if r.Stubs {
				break // what came of events is of no partition
			}
			l := book.At(e.Place)
			from := l.At()
			if _, ok := rows[from]; ok && (!evicted || e.Rank >= threshold) { // else the shard has put it out
				of[held{r.Role, e.ID}] = from
			}
		}
	}
	for i := range m.Pairs {
		p := &m.Pairs[i]
		role, id, ok := codec.ParseRowKey(p.Key)
		if !ok {
			continue
		}
		delete(of, held{role, id})
		row, err := codec.DecodeRow(p.Key, p.Value)
		if p.Value == nil || err != nil {
			continue
		}
		from := ledger.Incarnation{Partition: ledger.Partition{Topic: string(row.Topic), Number: row.Partition},
			Count: row.Incarnation}
		if next, ok := ends[from]; ok && row.Offset < next { // else it is of a process that ended before its head
			of[held{role, id}] = from
		}
	}
	for _, from := range of {
		rows[from]--
	}
	for _, missing := range rows {
		n += max(0, missing)
	}
	return n
}
