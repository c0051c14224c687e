package cycle

import (
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/evaluate"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/updates"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/scorer"
)

// TestDeltasWhileCompacted: deltas that were taken and published during a compaction also apply to the next update. A
// consumer of that has after them bit for bit what a consumer of the previous update has, in every variant of updates,
// also of new names. Later deltas apply to both.
func TestDeltasWhileCompacted(t *testing.T) {
	tier.NotUnderRace(t)
	for name, test := range fewDeltaCases() {
		t.Run(name, func(t *testing.T) {
			deltas, after, compared := 0, 0, false
			var x *updates.Compaction
			var made *fitted.Fitted
			test.next = func(c *Cycle, consumer *snapshot.Model) *snapshot.Model {
				c.publisher.comparison, c.publisher.updates = updates.UpdateComparison{
					Scale: evaluate.Fading{Rate: updates.UpdateFade},
					N:     1,
				}, true
				switch deltas++; {
				case compared:
					after++
					sameContents(t, "the consumer", consumer, c.publisher.Following())
				case x == nil && deltas == 3:
					if x = c.BeginCompaction(); x == nil {
						t.Fatal("nothing to compact")
					}
					if c.BeginCompaction() != nil {
						t.Fatal("compacted twice at a time")
					}
					var err error
					if made, err = x.Make(); err != nil {
						t.Fatal(err)
					}
				case deltas == 7:
					c.publisher.PublishUpdate(made)
					contents := made.Contents(c.config)
					contents.Tensors = map[string]string{"f32": format.F32}[c.config.Publish.Tensors]
					other, err := scorer.NewModel(contents)
					if err != nil {
						t.Fatal(err)
					}
					n := 0
					for d := c.publisher.Delta(); d != nil; d = c.publisher.Delta() {
						sent := *d
						sent.Sequence, sent.Previous = int64(n+1), other.Position().Digest
						if other, err = other.Apply(&sent); err != nil {
							t.Fatal(err)
						}
						c.publisher.PublishDelta()
						n++
					}
					if n != 4 {
						t.Errorf("%d deltas were taken during the compaction, want 4", n)
					}
					sameContents(t, "another consumer", other, consumer)
					sameContents(t, "the cycle", c.publisher.Following(), consumer)
					compared = true
					return other
				}
				return nil
			}
			test.play(t, func(*Cycle, *snapshot.Model, []event.Event) {})
			if after == 0 {
				t.Error("no delta after the compaction")
			}
		})
	}
}

// TestDeltasWhileAnUpdateIsMade: deltas of the previous update continue while one of the live model is made, in every
// variant. The first delta of the new update has what was learned during that time.
func TestDeltasWhileAnUpdateIsMade(t *testing.T) {
	tier.NotUnderRace(t)
	for name, test := range fewDeltaCases() {
		t.Run(name, func(t *testing.T) {
			deltas, missed := 0, []event.Event(nil)
			var x *updates.Update
			var made *fitted.Fitted
			test.next = func(c *Cycle, consumer *snapshot.Model) *snapshot.Model {
				c.publisher.comparison, c.publisher.updates = updates.UpdateComparison{
					Scale: evaluate.Fading{Rate: updates.UpdateFade},
					N:     1,
				}, true
				switch deltas++; deltas {
				case 3:
					c.publisher.deltas.Forms[test.form].Refused = 1 // there was a name without room
					var reason string
					if x, reason = c.BeginUpdate(); x == nil || x.Compaction != nil {
						t.Fatalf("no update of the live model: %s", reason)
					}
					var err error
					if made, _, err = x.Make(); err != nil || made == nil {
						t.Fatal(err)
					}
				case 7:
					c.TakeUp(x)
					c.publisher.PublishUpdate(made)
					contents := made.Contents(c.config)
					contents.Tensors = map[string]string{"f32": format.F32}[c.config.Publish.Tensors]
					next, err := scorer.NewModel(contents)
					if err != nil {
						t.Fatal(err)
					}
					sameContents(t, "the cycle", c.publisher.Following(), next)
					return next
				}
				return nil
			}
			test.play(t, func(c *Cycle, consumer *snapshot.Model, since []event.Event) {
				if missed = append(missed, since...); deltas < 3 || deltas > 7 {
					missed = missed[:0]
				}
				test.sameAsLive(t, c, consumer, since)
				if deltas == 7 {
					test.sameAsLive(t, c, consumer, missed)
				}
				if deltas == 6 && c.publisher.Following() == nil {
					t.Fatal("deltas of the update before have ended")
				}
			})
			if deltas < 8 {
				t.Errorf("%d deltas", deltas)
			}
		})
	}
}

// sameContents wants two models that would be published as the same version.
func sameContents(t *testing.T, who string, got, want *snapshot.Model) {
	t.Helper()
	a, err := format.PayloadDigest(got.Contents())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := format.PayloadDigest(want.Contents()); err != nil || a != b {
		t.Fatalf("%s has %s, want %s: %v", who, a, b, err)
	}
}
