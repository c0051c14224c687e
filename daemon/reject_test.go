package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer/event"
)

// malformedVisits holds those of a schema with classes and weights.
var malformedVisits = map[event.Reason]string{
	event.LabelUnknown:  `{"user":"u","item":"i","kind":"c","ts":1,"w":1}`,
	event.WeightInvalid: `{"user":"u","item":"i","kind":"a","ts":1,"w":-1}`,
}

// rejectedField is the field that the malformed records of a reason are bad in.
func rejectedField(r event.Reason) string {
	return map[event.Reason]string{event.MissingField: "item", event.WrongType: "item", event.NotFinite: "rating",
		event.NumberRange: "rating",
		event.LabelRange:  "rating", event.TimeInvalid: "ts", event.IDEmpty: "user", event.IDTooLong: "user",
		event.LabelUnknown:  "kind",
		event.WeightInvalid: "w"}[r]
}

const visitsModel = `  - name: visits
    input: {topics: [visits], start: earliest}
    schema: {task: multiclass, label: kind, classes: [a, b], weight: w, time: ts, time_unit: ms, categorical: [user, item]}
    sample: {size: 20000, seed: 42, holdout: {fraction: 0.1}}
    train: {every: 0s, every_events: 0, max_basis: 1, lambda: 3}
    publish: {store: store-m, update_every: 0s, gate: {min_rows: 20}}
`

func TestMalformedRecords(t *testing.T) {
	t.Parallel()
	for _, reason := range event.Reasons {
		if daemontest.Malformed[reason] == "" && malformedVisits[reason] == "" && reason != event.NullValue {
			t.Errorf("no malformed record for %s", reason)
		}
	}
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), "visits", 2, 0); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 1))
	ratings, wantRatings := daemontest.Spoiled(3000, func() []byte { return daemontest.Rating(r) },
		daemontest.Malformed)
	visits, wantVisits := daemontest.Spoiled(1000, func() []byte {
		return fmt.Appendf(nil, `{"user":"u%d","item":"i%d","kind":%q,"ts":1,"w":0.5}`, r.IntN(20), r.IntN(20),
			"ab"[r.IntN(2):][:1])
	}, malformedVisits)
	ratings = append(ratings, nil) // a tombstone
	wantRatings[string(event.NullValue)]++
	b.ProduceTo(daemontest.Topic, ratings...)
	b.ProduceTo("visits", visits...)
	path := b.Configure("m")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, visitsModel...), 0o644); err != nil {
		t.Fatal(err)
	}

	const goodRatings, goodVisits = 2700, 900
	d, stop := b.Start(path)
	var metrics string
	daemontest.Within(t, daemontest.Patience, "all records counted", func() bool {
		_, metrics = daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return d.Lag() == 0 &&
			daemontest.Sum(t, metrics, "refitd_events_total")+daemontest.Sum(t, metrics,
				"refitd_events_rejected_total") == 4001
	})
	wantMetrics := map[string]map[string]int64{"ratings": wantRatings, "visits": wantVisits}
	for model, want := range wantMetrics {
		good := map[string]int{"ratings": goodRatings, "visits": goodVisits}[model]
		if line := fmt.Sprintf(`refitd_events_total{model=%q,topic=%[1]q} %d`, model, good); !strings.Contains(metrics,
			line+"\n") {
			t.Errorf("no line %s", line)
		}
		got := make(map[string]int64)
		for _, m := range regexp.MustCompile(`(?m)^refitd_events_rejected_total\{field="([^"]*)",model="`+model+
			`",reason="([^"]+)"\} (\d+)$`).
			FindAllStringSubmatch(metrics, -1) {
			n, _ := strconv.ParseInt(m[3], 10, 64)
			got[m[2]] += n
			if field := rejectedField(event.Reason(m[2])); n > 0 && m[1] != field {
				t.Errorf("%d rejected as %s of field %q, want %q", n, m[2], m[1], field)
			}
		}
		for _, reason := range event.Reasons {
			if got[string(reason)] != want[string(reason)] {
				t.Errorf("%s: %d rejected as %s, want %d", model, got[string(reason)], reason, want[string(reason)])
			}
		}
	}
	stop()

	o := b.Run(path)
	if o.Err != nil || len(o.Summary.Models) != 2 {
		t.Fatalf("%d models, error %v", len(o.Summary.Models), o.Err)
	}
	for _, m := range o.Summary.Models {
		if got, want := daemontest.Balanced(t, m.State), map[string]int64{"ratings": goodRatings,
			"visits": goodVisits}[m.State.Model]; got != want {
			t.Errorf("%s: %d good events applied, want %d", m.State.Model, got, want)
		}
		if m.State.Rows.Train+m.State.Rows.Holdout != daemontest.Balanced(t, m.State) {
			t.Errorf("%s: rows %+v", m.State.Model, m.State.Rows)
		}
		if got, want := m.State.RejectedByReason, wantMetrics[m.State.Model]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: rejected %v, want %v", m.State.Model, got, want)
		}
	}
}

func TestAbortedTransactionsTeachNothing(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.Addr),
		kgo.DefaultProduceTopic(daemontest.Topic),
		kgo.TransactionalID("t1"),
		kgo.TransactionTimeout(10*time.Minute),
	) // the broker ends none of itself on a slow machine
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r := rand.New(rand.NewPCG(6, 1))
	send := func(n int) {
		t.Helper()
		var records []*kgo.Record
		for i := range n {
			records = append(records, &kgo.Record{Value: daemontest.Rating(r), Key: fmt.Append(nil, i)})
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	committed, aborted := int64(0), int64(0)
	for n := range 20 {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		send(50)
		commit := kgo.TryCommit
		if n%3 == 0 {
			commit = kgo.TryAbort
			aborted += 50
		} else {
			committed += 50
		}
		if err := client.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	// One transaction stays open: its records, and nothing behind them, can be read yet.
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	send(50)
	check := func(o daemontest.Outcome, committed, aborted int64) {
		t.Helper()
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		s := o.State(t)
		if got := daemontest.Balanced(t, s); got != committed || s.Rows.Train+s.Rows.Holdout != committed {
			t.Errorf("%d events applied, %+v rows, want the %d committed", got, s.Rows, committed)
		}
		gone, controls := int64(0), int64(0)
		for _, p := range s.Partitions {
			gone += p.Aborted
			controls += p.Control
		}
		if gone != aborted || controls == 0 {
			t.Errorf("%d aborted, want %d; %d markers", gone, aborted, controls)
		}
	}
	path := b.Configure("t")
	check(b.Run(path), committed, aborted)
	b.ProduceRatings(12, 100)
	check(b.Run(path), committed, aborted)
	if err := client.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	check(b.Run(path), committed+100, aborted+50)
}
