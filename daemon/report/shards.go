package report

import (
	"encoding/json"
	"time"
)

// ShardHead is the last head of a shard that its trainer has merged. What it says of its partitions is in
// State.Partitions.
type ShardHead struct {
	Shard   int       `json:"shard"`   // 0 to shard.count - 1
	Host    string    `json:"host"`    // that it ran on
	Written time.Time `json:"written"` // by the clock of the brokers
	Epoch   uint64    `json:"epoch"`   // one more with each start of the shard
	Sent    int64     `json:"sent"`    // changes of its sample since that start
	Lag     int64     `json:"lag"`     // records of its partitions that it had not applied
}

// ShardHeads returns the heads in the memo of a trainer's state (sketch.State.Memo, daemon/shard), in the order of the
// shards; none of another state.
func ShardHeads(memo []byte) (heads []ShardHead) {
	var list []struct{ Last ShardHead }
	if json.Unmarshal(memo, &list) != nil {
		return nil
	}
	for _, of := range list {
		if !of.Last.Written.IsZero() {
			heads = append(heads, of.Last)
		}
	}
	return heads
}
