package cycle

import (
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// BeginCompaction starts to merge the newest update and its deltas into the next update. It returns nil if consumers do
// not have that update or should get another variant. It also does so if deltas cannot bring the update up to the live
// model, if the update has no room for names, or if deltas of it are not published yet. NextUpdate makes one then.
// Call it from the goroutine that calls TakeDelta.
func (c *Cycle) BeginCompaction() *updates.Compaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.publisher.deltas
	if f == nil || !compacts(f, c) ||
		f.Of.Popular != nil { // popularity, which has moved, is in whole versions of what is live
		return nil
	}
	x := &updates.Compaction{Update: *c.champion, Model: f.Installed[f.Form], Settings: c.config}
	x.Reason = variants[f.Form].reason
	x.Update.Model = f.Of.Model // for its kernel
	c.ensemble.noteLive(&x.Update)
	next := *f.Forms[f.Form]
	next.DeltaBuffers = updates.DeltaBuffers{} // the encoder in use writes to its buffers
	x.Follower, x.Schema = &next, &c.schema
	f.Compaction = x
	return x
}

// EndCompaction gives up a compaction whose version was not published. Deltas of the previous update continue.
func (u *publisher) EndCompaction() {
	if u.deltas != nil {
		u.deltas.Compaction = nil
	}
}

// compacted has the deltas encode changes to u, if u is the version that a compaction has made. Call it without c.mu,
// from the goroutine that updates.
func (c *publisher) compacted(u *fitted.Fitted) {
	f := c.deltas // of this goroutine
	if f == nil || f.Compaction == nil || f.Compaction.Made != u {
		return
	}
	x := f.Compaction
	base := x.Follower.Model
	deltas, models, err := x.Deltas()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.stopDeltas()
		return
	}
	f.Compaction, f.Of, f.Forms[f.Form], f.Queue = nil, u, x.Follower, nil
	after := f.Installed
	for form, encoder := range f.Forms {
		if encoder != nil {
			after[form] = encoder.Model
		}
	}
	f.Installed[f.Form] = base
	for i, d := range deltas {
		after[f.Form] = models[i]
		f.Queue = append(f.Queue, updates.TakenDelta{Delta: d, After: after, Added: f.Added})
	}
}
