package sketch

import (
	"fmt"
)

// A GapError says that the log no longer holds the record the ledger needs next: offsets Next..LogStart-1 are lost
// unless a copy exists. Nothing was applied. AcceptGap declares the loss.
type GapError struct {
	Topic          string
	Partition      int32
	Next, LogStart int64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("sketch: %s/%d: the log starts at offset %d but %d is needed next: %d offsets are gone",
		e.Topic, e.Partition, e.LogStart, e.Next, e.LogStart-e.Next)
}
