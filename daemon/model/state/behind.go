package state

import (
	"slices"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/format"
)

// Beyond reports whether the state has read more than a cut.
func (s *State) Beyond(cut []format.Cut) bool {
	next := make(map[consumer.TopicPartition]int64, len(cut))
	for _, c := range cut {
		next[consumer.TopicPartition{Topic: c.Topic, Partition: c.Partition}] = c.Next
	}
	return slices.ContainsFunc(s.Store.Ledger(), func(l sketch.LedgerRow) bool {
		return l.Next > max(l.Start, next[consumer.TopicPartition{Topic: l.Topic, Partition: l.Partition}])
	})
}
