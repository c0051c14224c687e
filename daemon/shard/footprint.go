package shard

import "github.com/refitd/refitd/sketch"

const (
	// MinWaiting is room for the checkpoints of many partitions and a few rows.
	MinWaiting = 16 << 20

	pairBytes = 160 // of an entry of a map, without key and value
)

// WaitingFootprint is what MaxWaiting has to be for so many rows with payloads of so many bytes together.
func WaitingFootprint(rows int, payloads int64) int64 {
	return MinWaiting + int64(rows)*pairBytes + sketch.StoredFootprint(rows, 0) + payloads
}
