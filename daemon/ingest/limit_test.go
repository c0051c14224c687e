package ingest

import (
	"fmt"
	"testing"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
)

// TestRowLimit: where rows cannot make room for others, one that takes more than its part of sample.max_bytes is
// rejected, and elsewhere it is not.
func TestRowLimit(t *testing.T) {
	ev := event.Event{Label: 3, Weight: 1, Categorical: []string{"u", "i"}, Multi: [][]string{nil}}
	for i := range 200 {
		ev.Multi[0] = append(ev.Multi[0], fmt.Sprint("t", i))
	}
	capped := config.Cap{By: "user", Share: 0.5}
	for name, c := range map[string]struct {
		change func(m *config.Model)
		want   bool
	}{
		"others make room":  {func(m *config.Model) { m.Sample.MaxBytes = 1 << 20 }, true},
		"cap":               {func(m *config.Model) { m.Sample.Cap = capped }, false},
		"cap with room":     {func(m *config.Model) { m.Sample.Cap, m.Sample.MaxBytes = capped, 8<<20 }, true},
		"identity":          {func(m *config.Model) { m.Schema.Identity = "id" }, false},
		"larger than a row": {func(m *config.Model) { ev.Multi[0] = append(ev.Multi[0], make([]string, 6000)...) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			list := ev.Multi[0]
			defer func() { ev.Multi[0] = list }()
			m := config.DefaultModel()
			m.Name, m.Input.Topics = "m", []string{"t"}
			m.Schema = config.Schema{
				Task:        "ordinal",
				Label:       "rating",
				Levels:      5,
				TimeUnit:    "ms",
				Categorical: []string{"user", "item"},
				Multi:       []string{"tags"},
			}
			m.Sample.Size = 100
			c.change(&m)
			m.Resolve()
			g, _ := newIngest(t, &m, "")
			payload := rows.AppendEvent(nil, &ev)
			if got := g.isStorable(payload); got != c.want {
				t.Errorf("storable %t, want %t: %d bytes, limit %d", got, c.want, rows.RowBytes(payload), g.rowLimit)
			}
		})
	}
}
