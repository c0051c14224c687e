package daemon_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/report"
)

// numberNames returns all names of fields of two letters.
func numberNames() (names []string) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for _, a := range letters {
		for _, b := range letters {
			if name := string([]rune{a, b}); name != "ts" {
				names = append(names, name)
			}
		}
	}
	return names
}

// TestUnstorable: an event that the configuration lets through and the state has no room for is rejected, by every
// start anew, and the other models continue. Its numbers take eight bytes each in a row, and seven in JSON.
func TestUnstorable(t *testing.T) {
	t.Parallel()
	names := numberNames()
	var wide bytes.Buffer
	wide.WriteString(`{"user":"u1","item":"i1","rating":3,"ts":1`)
	for _, n := range names {
		fmt.Fprintf(&wide, `,"%s":1`, n)
	}
	wide.WriteString(`,"tags":["x"`)
	for room := int(config.MaxEventBytes) - wide.Len() - len("]}"); room > len(`,""`); room = int(
		config.MaxEventBytes) - wide.Len() - len("]}") {
		fmt.Fprintf(&wide, `,"%s"`, strings.Repeat(string(rune('a'+room%26)), min(60_000, room-len(`,""`))))
	}
	wide.WriteString("]}")
	if wide.Len() > int(config.MaxEventBytes) {
		t.Fatalf("the event has %d bytes, more than may be configured", wide.Len())
	}
	b := daemontest.New(t)
	b.ProduceRatings(8, 300)
	b.Produce(wide.Bytes())
	b.ProduceRatings(9, 300)
	path := b.Configure("w", "models:\n", `models:
  - name: wide
    input: {topics: [ratings], max_event_bytes: 256KiB, max_id_bytes: 64KiB}
    schema: {task: ordinal, label: rating, levels: 5, time: ts, time_unit: ms, numeric: ["`+strings.Join(names, `", "`)+`"], multi: [tags]}
    sample: {size: 100}
    train: {refit: output, kernel: homogeneous}
    publish: {store: wide}
`, "start: earliest", "start: earliest, max_event_bytes: 256KiB", "lambda: auto", "lambda: 3", "max_basis: 4", "max_basis: 2")
	for start := range 2 {
		o := b.Run(path)
		if report.CodeOf(o.Err) != report.ExitNo { // of the wide model nothing is applied
			t.Fatalf("start %d: %v", start, o.Err)
		}
		if len(o.Summary.Models) != 2 {
			t.Fatalf("start %d: %d models", start, len(o.Summary.Models))
		}
		// the second model has no field of those of the wide event, which has too many names for it
		for i, want := range []int64{0, 600} {
			s := o.Summary.Models[i].State
			if applied := daemontest.Balanced(t, s); applied != want || s.RejectedByReason["too_large"] != 1 {
				t.Errorf("start %d, model %s: %d events applied, want %d; rejected %v", start, s.Model, applied, want,
					s.RejectedByReason)
			}
		}
	}
}
