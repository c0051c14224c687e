package read

import (
	"slices"
	"sync"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/web"
)

// rejections counts records that are no events since the start, by cause. It is safe for concurrent use.
type rejections struct {
	mu     sync.Mutex
	causes map[event.Cause]int64
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
func (r *rejections) list() (list []web.Rejections) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cause, n := range r.causes {
		list = append(list, web.Rejections{Reason: string(cause.Reason), Field: cause.Field, Records: n})
	}
	slices.SortFunc(list, web.Rejections.Compare)
	return list
}
