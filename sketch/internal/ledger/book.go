package ledger

import (
	"cmp"
	"slices"
	"strings"
)

// A Partition is one of a topic, whatever the incarnation.
type Partition struct {
	Topic  string
	Number int32
}

// A Account is a row of the ledger as a Book has it.
type Account struct {
	Row
	Archived bool // of an incarnation that is over
}

// At returns the incarnation that the account is of.
func (l *Account) At() Incarnation {
	return Incarnation{Partition: Partition{Topic: l.Topic, Number: l.Partition}, Count: l.Incarnation}
}

// Position returns how far the account has come.
func (l *Account) Position() Position {
	return Position{Topic: l.Topic, Partition: l.Partition, Incarnation: l.Incarnation, Next: l.Next}
}

// A Book is the ledger in memory: the accounts of all partitions and incarnations, in the order in which they were
// begun. The index of an account is its place, which stays.
type Book struct {
	accounts []Account
	places   map[Partition]int32 // of the accounts that are not archived
	marks    map[int32][]mark    // their checkpoints, in the order of next
}

// NewBook returns a book without accounts.
func NewBook() Book {
	return Book{places: map[Partition]int32{}, marks: map[int32][]mark{}}
}

// Size returns the number of accounts, those of incarnations that are over included.
func (b *Book) Size() int { return len(b.accounts) }

// At returns the account at a place. It is valid until the next adopt.
func (b *Book) At(place int32) *Account { return &b.accounts[place] }

// All returns the accounts in the order of their places. They must not be changed.
func (b *Book) All() []Account { return b.accounts }

// Adopt adds an account and returns its place.
func (b *Book) Adopt(l Account) int32 {
	place := int32(len(b.accounts))
	if !l.Archived {
		b.places[Partition{Topic: l.Topic, Number: l.Partition}] = place
	}
	b.accounts = append(b.accounts, l)
	return place
}

// Archive ends the incarnation of the account at a place.
func (b *Book) Archive(place int32) {
	l := &b.accounts[place]
	delete(b.places, Partition{Topic: l.Topic, Number: l.Partition})
	l.Archived, l.Halted = true, ""
}

// Current returns the place of the account that a partition has now; ok is false before it was begun.
func (b *Book) Current(topic string, number int32) (place int32, ok bool) {
	place, ok = b.places[Partition{Topic: topic, Number: number}]
	return place, ok
}

// Place returns where the book has an incarnation of a partition, -1 where it has not.
func (b *Book) Place(topic string, number int32, incarnation uint32) int32 {
	if i, ok := b.places[Partition{Topic: topic, Number: number}]; ok && b.accounts[i].Incarnation == incarnation {
		return i
	}
	return int32(slices.IndexFunc(b.accounts, func(l Account) bool {
		return l.Topic == topic && l.Partition == number && l.Incarnation == incarnation
	}))
}

// Incarnation returns the newest incarnation of a topic, 0 if it was not begun.
func (b *Book) Incarnation(topic string) (newest uint32, begun bool) {
	for i := range b.accounts {
		if l := &b.accounts[i]; l.Topic == topic {
			newest, begun = max(newest, l.Incarnation), true
		}
	}
	return newest, begun
}

// Rows returns a copy of the rows that are not archived, ordered by topic and partition.
func (b *Book) Rows() []Row {
	rows := slices.Grow([]Row(nil), len(b.accounts)) // nil of none
	for i := range b.accounts {
		if l := &b.accounts[i]; !l.Archived {
			rows = append(rows, l.Row)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return rows
}

// Positions returns how far all partitions have been applied, in the order of rows.
func (b *Book) Positions() []Position {
	var out []Position
	for _, l := range b.Rows() {
		out = append(out, Position{Topic: l.Topic, Partition: l.Partition, Incarnation: l.Incarnation, Next: l.Next})
	}
	return out
}

// An Incarnation is a partition of a topic that may have been made again.
type Incarnation struct {
	Partition
	Count uint32 // how often the topic was made before
}

// RowsOf returns the rows of accounts, in their order; nil of nil.
func RowsOf(accounts []Account) []Row {
	if accounts == nil {
		return nil
	}
	rows := make([]Row, len(accounts))
	for i := range accounts {
		rows[i] = accounts[i].Row
	}
	return rows
}
