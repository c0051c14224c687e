package cycle

import (
	"reflect"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/cycletest"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

// TestPrescoringChangesNothing: events that are scored a batch before they are observed leave the metrics of events
// that are not, also if consumers get their first version, an update or another champion between the two.
func TestPrescoringChangesNothing(t *testing.T) {
	classes := cycletest.RatingsModel(func(m *config.Model) {
		m.Schema.Task, m.Schema.Levels, m.Schema.Classes = "multiclass", 0, []string{"1", "2", "3", "4", "5"}
	})
	labelled := cycletest.Stream(3, 1500)
	for i := range labelled {
		labelled[i].Classes = []string{string(rune('0' + int(labelled[i].Label)))}
	}
	for name, test := range map[string]struct {
		model  *config.Model
		events []event.Event
	}{"ordinal": {cycletest.RatingsModel(nil), cycletest.Stream(1, 1500)}, "binary": {switchModel(), cycletest.Numbers(1,
		1500)}, "multiclass": {classes, labelled}} {
		const batch = 50
		run := func(ahead bool) (used int, report any) {
			c := newCycle(t, test.model)
			f, scores := c.NewBatchScorer(), make([]updates.Score, batch)
			first := mustRefit(t, c, sampleOf(test.events[:500]))
			var second *fitted.Fitted
			for from := 0; from < len(test.events); from += batch {
				events := test.events[from : from+batch]
				if f.Refresh() != (c.Champion() != nil) {
					t.Fatalf("%s: Refresh reports a version that there is not, or none", name)
				}
				for i := range events {
					f.Score(&scores[i], &events[i])
				}
				for i := range events {
					switch from + i {
					case 515:
						c.Install(first)
					case 620:
						if u, _ := c.NextUpdate(); u != nil {
							t.Fatalf("%s: the first update is published unseen", name)
						}
					case 775:
						c.publisher.PublishUpdate(c.Update())
					case 1005:
						second = mustRefit(t, c, sampleOf(test.events[:1000]))
					case 1030:
						c.Install(second)
					}
					var score *updates.Score
					if ahead {
						if score = &scores[i]; score.Of != nil && score.Of == c.publisher.published.Load() {
							used++
						}
					}
					c.Observe(&events[i], i%10 > 1, rows.Position{Topic: "t", Offset: int64(from + i)},
						rows.AppendEvent(nil, &events[i]), score)
				}
			}
			return used, []any{c.Progressive(), c.progress.Names(), c.progress.progressive.Sums, c.publisher.comparison}
		}
		_, want := run(false)
		used, got := run(true)
		// none of the batch in which the first version comes, and of others until the next one does
		if used != 70+125+200+30+450 {
			t.Errorf("%s: %d scores were of use", name, used)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: scored ahead\n%+v\nas they come\n%+v", name, got, want)
		}
	}
}
