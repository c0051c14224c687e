package read

import (
	"slices"
	"sync"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/web/statuspage"
)

// maxKept is how many of the last rejected records are kept, of at most a kilobyte each. Chosen by hand.
const maxKept = 200

// rejections counts records that are no events since the start, by cause, and keeps the last ones. It is safe for
// concurrent use.
type rejections struct {
	mu     sync.Mutex
	causes map[event.Cause]int64
	last   []statuspage.RejectedRecord // oldest first
}

// keep keeps those of a batch.
func (r *rejections) keep(c *ingest.Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range c.Rejects {
		x := &c.Rejects[i]
		r.last = append(r.last, statuspage.RejectedRecord{Topic: c.Topic, Partition: c.Partition, Offset: x.Offset,
			Time: time.UnixMilli(x.Time).UTC(), Bytes: x.Size, Reason: string(x.Rejection.Reason), Field: x.Rejection.Field,
			Expected: x.Rejection.Expected, Got: x.Rejection.Got, Outline: x.Outline})
	}
	if more := len(r.last) - maxKept; more > 0 {
		r.last = slices.Delete(r.last, 0, more)
	}
}

// kept returns the last ones, newest first.
func (r *rejections) kept() []statuspage.RejectedRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.last)
	slices.Reverse(list)
	return list
}

// add counts those of a batch.
func (r *rejections) add(causes map[event.Cause]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.causes == nil {
		r.causes = make(map[event.Cause]int64)
	}
	for cause, n := range causes {
		r.causes[cause] += n
	}
}

// list returns them, most frequent first.
func (r *rejections) list() (list []statuspage.Rejections) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cause, n := range r.causes {
		list = append(list, statuspage.Rejections{Reason: string(cause.Reason), Field: cause.Field, Records: n})
	}
	slices.SortFunc(list, statuspage.Rejections.Compare)
	return list
}
