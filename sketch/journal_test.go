package sketch

import (
	"bytes"
	"errors"
	"slices"

	"github.com/refitd/refitd/sketch/internal/codec"
	"github.com/refitd/refitd/sketch/internal/ledger"
	"github.com/refitd/refitd/sketch/internal/storage"
)

var errCrash = errors.New("the machine went down")

// A driver says what the harness does wrong around a store that is right: the reader's mistakes, and the storage's.
type driver struct {
	torn, withoutLedger, withoutRows                  bool // what the storage makes of a transaction
	skipAtResume, controlApplied, abortedApplied      bool
	brokerOffset, joinOlder, joinAdds, forgetsMarkers bool
	noTruncation                                      bool // of the harness itself: it leaves a fault out
}

// A journal is a backend that can crash at a commit and lose the last commits. Over Badger it can only crash.
type journal struct {
	storage.Backend
	commits [][]storage.Op
	until   int  // commits until the crash; negative = no crash
	durable bool // whether the crashing commit is durable all the same
	broken  driver
}

func (j *journal) Commit(ops []storage.Op) error {
	crash := j.until == 0
	j.until--
	if crash && !j.durable && !j.broken.torn {
		return errCrash
	}
	var kept []storage.Op
	for i, o := range ops {
		if j.broken.withoutLedger && o.Key[0] == codec.PrefixLedger || j.broken.withoutRows && o.Key[0] == codec.PrefixRow ||
			crash && j.broken.torn && i > len(ops)/2 {
			continue
		}
		kept = append(kept, storage.Op{Key: bytes.Clone(o.Key), Value: bytes.Clone(o.Value), Skip: o.Skip})
	}
	if err := j.Backend.Commit(kept); err != nil {
		return err
	}
	j.commits = append(j.commits, kept)
	if crash {
		return errCrash
	}
	return nil
}

// Limits are small, so that most parts take several transactions.
func (j *journal) Limits() (entries, bytes int64) { return 40, 1 << 20 }

// lose forgets the last n commits, but for the first, which is the settings.
func (j *journal) lose(n int) { j.become(j.commits[:max(1, len(j.commits)-n)]) }

// become makes the state what commits make of an empty one.
func (j *journal) become(commits [][]storage.Op) {
	j.commits = slices.Clone(commits)
	m := storage.NewMemory()
	for _, ops := range j.commits {
		m.Commit(ops)
	}
	j.Backend = m
}

// copied is a state as it was.
type copied struct {
	commits [][]storage.Op
	got     map[*oraclePartition][]outcome
	lineage string
}

// copy keeps a copy of the state, as another instance may have one.
func (h *history) copy() {
	if h.reopen != nil {
		return
	}
	c := &copied{commits: slices.Clone(h.j.commits), got: map[*oraclePartition][]outcome{}, lineage: h.store.Lineage()}
	for _, p := range h.partitions {
		c.got[p] = slices.Clone(p.got)
	}
	h.copied = c
}

// join makes one state of two copies of one life: the one that has come further in every partition, if either has.
func (h *history) join() error {
	c := h.copied
	if c == nil || c.lineage != h.store.Lineage() || len(c.got) != len(h.partitions) {
		return nil
	}
	ahead, behind := true, true
	for _, p := range h.partitions {
		ahead = ahead && len(c.got[p]) >= len(p.got)
		behind = behind && len(c.got[p]) <= len(p.got)
	}
	if h.broken.joinOlder {
		ahead, behind = behind, ahead
	}
	if !ahead || behind {
		if h.broken.joinAdds && behind {
			return h.addCounts(c)
		}
		return nil
	}
	h.j.become(c.commits)
	if !h.broken.joinOlder {
		for _, p := range h.partitions {
			p.got = slices.Clone(c.got[p])
		}
	}
	if err := h.open(h.o); err != nil {
		return err
	}
	h.oracle.aux = h.store.Aux()
	for _, p := range h.current() {
		if next, _ := h.store.Position(p.topic, p.number); next != p.next() {
			if !h.broken.joinOlder {
				return errors.New("the copy that was ahead is not where it was")
			}
			// The copy is taken for the state: what it lacks is read again, if the log still has it.
			for k := next; k < p.next(); k++ {
				if k < h.logs[p].start {
					return errors.New("events are lost that had been applied")
				}
			}
			p.got = p.got[:next-p.start]
		}
	}
	return nil
}

// addCounts is what a join must not do.
func (h *history) addCounts(c *copied) error {
	for _, p := range h.current() {
		n := int64(len(c.got[p]))
		err := h.store.change(p.topic, p.number, func(l *ledger.Account) error {
			l.Start, l.Holes = l.Start-n, l.Holes+n
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// trustGroup is what a start must not do.
func (h *history) trustGroup(p *oraclePartition) error {
	return h.store.change(p.topic, p.number, func(l *ledger.Account) error {
		if committed := h.logs[p].committed; committed > l.Next {
			l.Holes += committed - l.Next
			l.Next = committed
		}
		return nil
	})
}
