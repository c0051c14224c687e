package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// balanced checks the accounting identity of every partition and returns the sum of applied.
func balanced(t *testing.T, s report.State) (applied int64) {
	t.Helper()
	for _, p := range s.Partitions {
		if p.Applied+p.Rejected+p.Control+p.Aborted+p.Holes+p.Gap != p.Next-p.Start {
			t.Errorf("partition %d does not add up: %+v", p.Partition, p)
		}
		applied += p.Applied
	}
	return applied
}

func TestRunUntilEnd(t *testing.T) {
	b := newBench(t)
	b.produceRatings(1, 4000)
	path := b.configure("a", "every_events: 0", "every_events: 1500")
	first := b.run(path)
	if first.err != nil {
		t.Fatal(first.err)
	}
	if got := balanced(t, first.state(t)); got != 4000 {
		t.Errorf("%d events applied, want 4000", got)
	}
	m := first.summary.Models[0]
	if m.VersionsPromoted < 1 || m.Champion == nil || first.count("version") != m.VersionsPromoted+m.VersionsKept || first.lines[0]["type"] != "ready" {
		t.Errorf("%d promoted, %d kept, champion %v, lines by type wrong: %v", m.VersionsPromoted, m.VersionsKept, m.Champion, first.lines[0])
	}
	model, err := snapshot.Open(b.dir+"/store-a", "ratings", snapshot.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := model.Schema().InputFromMap(map[string]any{"user": "u6", "item": "i2"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := model.Predict(&in); err != nil || p.Value < 1 || p.Value > 5 || len(p.Unseen) > 0 {
		t.Errorf("prediction %+v, error %v", p, err)
	}

	// The second run finds nothing new, takes the champion up and goes on with the sums.
	b.produceRatings(2, 500)
	second := b.run(path)
	if second.err != nil {
		t.Fatal(second.err)
	}
	if got := balanced(t, second.state(t)); got != 4500 {
		t.Errorf("%d events applied after the second run, want 4500", got)
	}
	p := second.summary.Models[0].Progressive
	if p.N != 4500 || p.NoModel != first.summary.Models[0].Progressive.NoModel {
		t.Errorf("%d events scored, %d without a model; before the restart %d", p.N, p.NoModel, first.summary.Models[0].Progressive.NoModel)
	}
	if v := second.lines[1]; v["type"] != "version" || v["warm"] != true || v["parent"] == nil {
		t.Errorf("the refit after the restart is not warm: %v", v)
	}
}

// TestKilledRunsEndAlike: whatever is killed when, state and first payload are those of an undisturbed run.
func TestKilledRunsEndAlike(t *testing.T) {
	b := newBench(t)
	n := 60_000
	if testing.Short() {
		n = 20_000
	}
	b.produceRatings(3, n)
	want := b.run(b.configure("calm"))
	if want.err != nil {
		t.Fatal(want.err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("kill seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	path := b.configure("killed")
	// Badger syncs at every batch; a kill within the first fifth of a second often finds none, later ones some.
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(50+r.IntN(500))*time.Millisecond)
		cmd := exec.CommandContext(ctx, os.Args[0]) // killed with SIGKILL when the time is up
		cmd.Env = append(os.Environ(), childConfig+"="+path)
		err := cmd.Run()
		cancel()
		if err == nil {
			t.Log("a child ended before its kill")
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childConfig+"="+path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	got := parse(t, out, nil)
	if a, b := got.state(t), want.state(t); !reflect.DeepEqual(a, b) {
		t.Errorf("after kills\n%+v\nundisturbed\n%+v", a, b)
	}
	if got.summary.Models[0].Progressive.N != int64(n) {
		t.Errorf("%d events scored, want %d", got.summary.Models[0].Progressive.N, n)
	}
}

// TestRestartKeepsTheLiveModel: what was learned before a restart is folded in again from the sample, with a champion and without one.
func TestRestartKeepsTheLiveModel(t *testing.T) {
	b := newBench(t)
	b.produceRatings(10, 5000)
	for name, edit := range map[string]string{"with": "every_events: 0", "without": "every_events: 1000000"} {
		path := b.configure(name, "every_events: 0", edit)
		if o := b.run(path); o.err != nil {
			t.Fatal(o.err)
		}
		if name == "without" { // as if it had been killed before its first version
			if err := os.RemoveAll(b.dir + "/store-without"); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.produceRatings(11, 1000)
	for _, name := range []string{"with", "without"} {
		o := b.run(b.configure(name, "every_events: 0", "every_events: 0"))
		if o.err != nil {
			t.Fatal(o.err)
		}
		// With the champion's basis .44. Without one only biases can be learned: .85 if they are taken up, .88 if they start from nothing.
		limit := map[string]float64{"with": 0.5, "without": 0.865}[name]
		if p := o.summary.Models[0].Progressive; p.WindowN != 1000 || float64(*p.Window.Live.RMSE) > limit {
			t.Errorf("%s a champion: live rmse %.3f over the %d events after the restart, want at most %g", name, *p.Window.Live.RMSE, p.WindowN, limit)
		}
	}
}

// TestFirstPayloadIsReproducible: with no schedule the only refit of an empty state is the last one, and has the same bytes each time.
func TestFirstPayloadIsReproducible(t *testing.T) {
	b := newBench(t)
	b.produceRatings(4, 3000)
	digest := func(name string) any {
		o := b.run(b.configure(name))
		if o.err != nil || o.count("version") != 1 {
			t.Fatalf("%d versions, error %v", o.count("version"), o.err)
		}
		return o.lines[1]["payload_digest"]
	}
	if one, two := digest("one"), digest("two"); one != two || one == "" {
		t.Errorf("payloads %v and %v", one, two)
	}
}

// malformed holds a record for every reason of the contract that a value can have.
var malformed = map[consumer.Reason]string{
	consumer.NotUTF8:      "{\"user\":\"\xff\",\"item\":\"i\",\"rating\":1,\"ts\":1}",
	consumer.NotJSON:      `{"user":"u","item":"i","rating":NaN,"ts":1}`,
	consumer.NotObject:    `["u","i",3]`,
	consumer.TrailingData: `{"user":"u","item":"i","rating":1,"ts":1} x`,
	consumer.DuplicateKey: `{"user":"u","user":"v","item":"i","rating":1,"ts":1}`,
	consumer.TooDeep:      `{"user":"u","item":"i","rating":1,"ts":1,"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	consumer.TooLarge:     `{"user":"u","item":"i","rating":1,"ts":1,"x":"` + strings.Repeat("x", 70_000) + `"}`,
	consumer.MissingField: `{"user":"u","rating":1,"ts":1}`,
	consumer.WrongType:    `{"user":"u","item":{},"rating":1,"ts":1}`,
	consumer.NotFinite:    `{"user":"u","item":"i","rating":"NaN","ts":1}`,
	consumer.NumberRange:  `{"user":"u","item":"i","rating":1e999,"ts":1}`,
	consumer.LabelRange:   `{"user":"u","item":"i","rating":6,"ts":1}`,
	consumer.TimeInvalid:  `{"user":"u","item":"i","rating":1,"ts":-5}`,
	consumer.IDEmpty:      `{"user":"","item":"i","rating":1,"ts":1}`,
	consumer.IDTooLong:    `{"user":"` + strings.Repeat("u", 300) + `","item":"i","rating":1,"ts":1}`,
}

func TestMalformedRecords(t *testing.T) {
	b := newBench(t)
	r := rand.New(rand.NewPCG(5, 1))
	var values [][]byte
	want := make(map[string]int64)
	reasons := make([]consumer.Reason, 0, len(malformed))
	for reason := range malformed {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	good := int64(0)
	for i := range 3000 {
		if i%10 == 3 {
			reason := reasons[i/10%len(reasons)]
			values = append(values, []byte(malformed[reason]))
			want[string(reason)]++
			continue
		}
		values = append(values, rating(r))
		good++
	}
	values = append(values, nil) // a tombstone
	want[string(consumer.NullValue)]++
	b.produce(values...)

	d, stop := b.start(b.configure("m"))
	var metrics string
	within(t, 20*time.Second, "all records counted", func() bool {
		_, metrics = get(t, "http://"+d.Addr()+"/metrics")
		return strings.Contains(metrics, fmt.Sprintf(`refitd_events_total{model="ratings",topic="ratings"} %d`, good))
	})
	for reason, n := range want {
		if line := fmt.Sprintf(`refitd_events_rejected_total{model="ratings",reason=%q} %d`, reason, n); !strings.Contains(metrics, line) {
			t.Errorf("no line %s", line)
		}
	}
	stop()
	o := b.run(b.configure("m"))
	if got := balanced(t, o.state(t)); got != good {
		t.Errorf("%d good events applied, want %d", got, good)
	}
	if got := o.state(t).RejectedByReason; !reflect.DeepEqual(got, want) {
		t.Errorf("rejected %v, want %v", got, want)
	}
}

func TestAbortedTransactionsTeachNothing(t *testing.T) {
	b := newBench(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.DefaultProduceTopic(topic), kgo.TransactionalID("t1"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r := rand.New(rand.NewPCG(6, 1))
	committed := int64(0)
	for n := range 20 {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		var records []*kgo.Record
		for i := range 50 {
			records = append(records, &kgo.Record{Value: rating(r), Key: fmt.Append(nil, i)})
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		commit := kgo.TryCommit
		if n%3 == 0 {
			commit = kgo.TryAbort
		} else {
			committed += 50
		}
		if err := client.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	o := b.run(b.configure("t"))
	if o.err != nil {
		t.Fatal(o.err)
	}
	s := o.state(t)
	if got := balanced(t, s); got != committed {
		t.Errorf("%d events applied, want the %d committed", got, committed)
	}
	aborted := int64(0)
	for _, p := range s.Partitions {
		aborted += p.Aborted
	}
	if aborted != 1000-committed || s.Rows.Train+s.Rows.Holdout != committed {
		t.Errorf("%d aborted, %d rows", aborted, s.Rows.Train+s.Rows.Holdout)
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return res.StatusCode, string(b)
}

// TestHealthWithoutBroker: a broker that cannot be reached makes the daemon not ready, and not ill.
func TestHealthWithoutBroker(t *testing.T) {
	b := newBench(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	closed.Close()
	d, stop := b.start(b.configure("h", b.addr, addr))
	base := "http://" + d.Addr()
	if status, _ := get(t, base+"/-/healthy"); status != http.StatusOK {
		t.Errorf("healthy: %d", status)
	}
	within(t, 10*time.Second, "a reason for not being ready", func() bool {
		status, body := get(t, base+"/-/ready")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "ratings: ")
	})
	if status, _ := get(t, base+"/nothing"); status != http.StatusNotFound {
		t.Errorf("unknown path: %d", status)
	}
	if status, _ := get(t, base+"/debug/pprof/"); status != http.StatusNotFound {
		t.Errorf("pprof is served: %d", status)
	}
	_, metrics := get(t, base+"/metrics")
	checkDocumented(t, metrics)
	stop()
	until := b.run(b.configure("u", b.addr, addr))
	if code := report.CodeOf(until.err); code != report.ExitBroker || !strings.Contains(report.ErrorOf(until.err).Key, "bootstrap_servers") {
		t.Errorf("--until end without a broker: exit %d, %v", code, until.err)
	}
}

// checkDocumented asks for every refitd metric in the README's table, and for every name of the table in the exposition or in the code's
// vectors that have no series yet.
func checkDocumented(t *testing.T, metrics string) {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(readme), "## Metrics")
	if !found {
		t.Fatal("README.md has no section Metrics")
	}
	for _, m := range regexp.MustCompile(`(?m)^# HELP (refitd_\w+) (\S)`).FindAllStringSubmatch(metrics, -1) {
		if !regexp.MustCompile(m[1] + `[{\x60]`).MatchString(table) {
			t.Errorf("%s is not in README.md", m[1])
		}
	}
}

func TestStateGuards(t *testing.T) {
	b := newBench(t)
	b.produceRatings(7, 200)
	path := b.configure("g")
	conf, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(t.Context(), daemon.Options{Config: conf, UntilEnd: true, Out: report.NewEmitter(io.Discard, true), Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if locked := b.run(path); report.CodeOf(locked.err) != report.ExitState || !strings.Contains(locked.err.Error(), "another process") {
		t.Errorf("locked state: %v", locked.err)
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if full := b.run(b.configure("g", "1MiB", "1024GiB")); report.CodeOf(full.err) != report.ExitState || !strings.Contains(full.err.Error(), "storage.min_free_bytes") {
		t.Errorf("too little space: %v", full.err)
	}
	if other := b.run(b.configure("g", "seed: 42", "seed: 43")); report.CodeOf(other.err) != report.ExitUsage || !strings.Contains(other.err.Error(), "sample.seed") {
		t.Errorf("another seed: %v", other.err)
	}
}

// TestGapHaltsItsPartition: retention that passed the ledger stops one partition, in words, run after run; the others go on.
func TestGapHaltsItsPartition(t *testing.T) {
	b := newBench(t)
	b.produceRatings(8, 2000)
	path := b.configure("r")
	if first := b.run(path); first.err != nil {
		t.Fatal(first.err)
	}
	b.produceRatings(9, 2000)
	admin := kadm.NewClient(b.kafka)
	ends, err := admin.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 1)
	cut := kadm.Offsets{}
	cut.Add(kadm.Offset{Topic: topic, Partition: 1, At: end.Offset - 10})
	if _, err := admin.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		o := b.run(path)
		if e, ok := errors.AsType[*report.ExitError](o.err); !ok || e.Code != report.ExitHalted || o.count("halt") != 1 {
			t.Fatalf("%d halts, error %v", o.count("halt"), o.err)
		}
		for _, p := range o.state(t).Partitions {
			if p.Partition == 1 {
				if p.Halted == nil || !strings.Contains(*p.Halted, "gap of") {
					t.Errorf("partition 1 is halted by %v", p.Halted)
				}
			} else if p.Halted != nil || p.Applied < 800 {
				t.Errorf("partition %d: %d applied, halted %v", p.Partition, p.Applied, p.Halted)
			}
		}
		balanced(t, o.state(t))
	}
	accepted := b.run(b.configure("r", "start: earliest", "start: earliest, on_gap: record"))
	if accepted.err != nil {
		t.Fatal(accepted.err)
	}
	for _, p := range accepted.state(t).Partitions {
		if p.Partition == 1 && (p.Gap == 0 || p.Halted != nil || p.Next != end.Offset) {
			t.Errorf("after on_gap: record: %+v", p)
		}
	}
	balanced(t, accepted.state(t))
}
