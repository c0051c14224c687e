package shard

import (
	"encoding/json"
	"fmt"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// counted is what a memo says of a shard.
type counted struct {
	mark                  // of the last head counted
	Lost instance         `json:"lost,omitzero"`
	Last report.ShardHead `json:"last,omitzero"`
}

// memo returns how much of each shard has been counted, so that a trainer that is started again notices what the
// topic has lost since.
func (r *Receiver) memo() ([]byte, error) {
	out := make([]counted, len(r.shards), len(r.shards)+1)
	for i := range r.shards {
		in := &r.shards[i]
		out[i] = counted{in.head, in.lost, in.last}
	}
	return json.Marshal(
		append(out, counted{mark: mark{By: r.tenure.seen, Sent: r.tenure.version}}),
	) // the last one is of the trainers: their versions
}

// recall takes up a memo. Without one the topic is read from its start.
func (r *Receiver) recall(memo []byte, ok bool) error {
	gaps := 0
	if ok {
		gaps = r.gaps
	}
	for i := range r.shards {
		r.shards[i] = incoming{gaps: gaps}
	}
	var list []counted
	if len(memo) > 0 {
		if err := json.Unmarshal(memo, &list); err != nil {
			return fmt.Errorf("shard: %w: %w", sketch.ErrCorrupt, err)
		}
	}
	if len(list) > len(r.shards) {
		r.tenure.seen, r.tenure.version = list[len(r.shards)].By, list[len(r.shards)].Sent
	}
	for i := range list[:min(len(list), len(r.shards))] {
		c := &list[i]
		r.shards[i] = incoming{by: c.By, head: c.mark, lost: c.Lost, last: c.Last, gaps: gaps}
	}
	return nil
}
