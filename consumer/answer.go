package consumer

import (
	"cmp"
	"slices"

	"github.com/segmentio/kafka-go"
)

// An Answer is what a broker answered for one partition of a fetch, for clients that read it by another library.
type Answer struct {
	From          int64 // offset that was asked for
	Code          int16
	HighWatermark int64
	LogStart      int64  // -1 if the broker does not say
	Records       []byte // record batches, as they came
	// Aborted are the transactions that are aborted, where Committed: only committed records were asked for.
	Aborted   []AbortedTransaction
	Committed bool
}

func (a *Answer) response() *partitionResponse {
	return &partitionResponse{code: a.Code, high: a.HighWatermark, logStart: a.LogStart, aborted: a.Aborted,
		records: a.Records}
}

func (a *Answer) outOfRange() bool { return kafka.Error(a.Code) == kafka.OffsetOutOfRange }

// Odd says what of an answer is to be believed only after a second answer on another connection, or nothing: holes,
// batches out of place or in another order than in seen, transactions without an end, and logs that start above the
// offset, or are said not to have it.
func (a *Answer) Odd(seen *Numbers) string {
	if a.outOfRange() {
		return "the log does not have the offset"
	}
	r := a.response()
	o := r.odd(a.From, a.From, seen)
	if a.Committed && o.kind == "" {
		if u, _ := r.undecided(len(a.Records), a.From, seen.runningAt(a.From)); u.sound < len(a.Records) {
			return cmp.Or(u.text, "a transaction does not end in the answer")
		}
		r.follow(a.From, seen)
	}
	return o.text
}

// Noted takes up in seen what is believed after a second answer.
func (a *Answer) Noted(seen *Numbers) {
	seen.noteAll(a.Records, a.From)
	if a.Committed {
		a.response().follow(a.From, seen)
	}
}

// ConfirmedBy reports whether a second answer to the same question says of all that a has what a says.
func (a *Answer) ConfirmedBy(b *Answer) bool {
	switch {
	case a.outOfRange() || b.outOfRange():
		return b.outOfRange() && (a.outOfRange() || a.LogStart > a.From)
	case b.Code != 0 || a.LogStart > a.From != (b.LogStart > b.From):
		return false
	}
	one := a.response()
	same, ok := one.agreed(b.response(), a.From)
	_, _, more, err := cutBatch(one.records[same:])
	return ok && (!more || err != nil)
}

// Settled returns which of three answers on three connections to a question for an offset of a log is believed: the
// middle one. Offsets of a log only grow, so it lies between the two answers that are true, whatever the third is. The
// answers of a log that is appended to may differ. falls is true if the answers, in the order of the questions, cannot
// all be true.
func Settled(offsets [3]int64) (which int, falls bool) {
	order := []int{0, 1, 2}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(offsets[i], offsets[j]) })
	return order[1], !slices.IsSorted(offsets[:])
}
