package dataset

import (
	"fmt"

	"github.com/refitd/refitd/consumer/event"
)

const (
	// maxColumns bounds the columns of a file, and the members of JSON objects that are looked at.
	maxColumns = 100_000
	// maxProfileBytes bounds the text of the distinct values that a profile holds, over all columns.
	maxProfileBytes = 256 << 20
)

// tooManyMembers is about an object with members that come after maxColumns others.
var tooManyMembers = &event.Rejection{Reason: tooManyColumns,
	Expected: fmt.Sprintf("objects with at most %d different members in all", maxColumns),
	Got:      "more: an object by names is no event"}

// isFull reports whether there is no room for another column.
func (p *Profile) isFull() bool { return len(p.Columns) >= maxColumns }

// hasRoom reports whether the column can hold another distinct value, and counts it.
func (c *Column) hasRoom(value string) bool {
	if len(c.values) >= MaxProfileValues || c.profile.bytes+len(value) > maxProfileBytes {
		return false
	}
	c.profile.bytes += len(value)
	return true
}
