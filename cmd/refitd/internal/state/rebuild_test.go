package state_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// decisions returns the journal of a state.
func decisions(t *testing.T, dir string) (out []state.Decision) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var d state.Decision
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

// TestRebuild: a damaged state is refused in words, rebuilt from the log as it was, and kept.
func TestRebuild(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(31, 3000)
	path := b.Configure(
		"rebuild",
		append(
			[]string{
				"categorical: [user, item]",
				"categorical: [user, item], derived: [{name: before, kind: previous_label, " +
					"of: user}, {name: seen, kind: last, of: item, field: user, k: 2}]",
			},
			daemontest.Simple...)...)
	first := b.Run(path)
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	conf, model, dir := daemontest.Load(t, path)
	if err := os.Remove(filepath.Join(dir, "rows", "MANIFEST")); err != nil {
		t.Fatal(err)
	}
	if damaged := b.Run(path); report.CodeOf(damaged.Err) != report.ExitState ||
		!strings.Contains(damaged.Err.Error(), "MANIFEST missing, refusing") {
		t.Fatalf("damaged state: %v", damaged.Err)
	}
	var out bytes.Buffer
	r := state.Rebuild{
		Config: conf,
		Model:  model,
		Why:    "MANIFEST was lost",
		Out:    report.NewEmitter(&out, true),
		Log:    daemontest.Quiet(),
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var summary report.RebuildSummary
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &summary); err != nil {
		t.Fatal(err)
	}
	if summary.Events != 3000 || summary.Path != dir {
		t.Errorf("summary %+v", summary)
	}
	sameState(t, "rebuilt state", summary.State, first.State(t))
	if _, err := os.Stat(filepath.Join(summary.Kept, "rows")); err != nil {
		t.Errorf("the old state was not kept: %v", err)
	}
	if d := decisions(t, dir); len(d) != 1 || d[0].Verb != "rebuild" || d[0].Why != "MANIFEST was lost" {
		t.Errorf("journal %+v", d)
	}
	again := b.Run(path)
	if again.Err != nil {
		t.Fatal(again.Err)
	}
	sameState(t, "state after the next run", again.State(t), first.State(t))
	if leftover, _ := filepath.Glob(dir + ".rebuil*"); len(leftover) > 0 {
		t.Errorf("left behind: %v", leftover)
	}
}

// TestRebuildOfOtherFields: rebuild is what refitd asks for when the fields of a schema change, so the daemon
// continues with the state that it makes. A backup has the fields of its time, whatever state it is put in the place
// of.
func TestRebuildOfOtherFields(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(37, 1200)
	first := b.Run(b.Configure("fields", daemontest.Simple...))
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	_, model, dir := daemontest.Load(t, b.Configure("fields", daemontest.Simple...))
	file := filepath.Join(b.Dir, "fields.backup")
	emitter := report.NewEmitter(io.Discard, true)
	if err := state.Backup(t.Context(), dir, model.Name, file, nil, daemontest.Quiet(), emitter); err != nil {
		t.Fatal(err)
	}
	path := b.Configure(
		"fields",
		append([]string{"categorical: [user, item]", "categorical: [item, user]"}, daemontest.Simple...)...)
	refused := func(when string, err error) {
		t.Helper()
		const want = "schema.categorical is [item user], but the state was made with [user item]"
		if report.CodeOf(err) != report.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("the old state", b.Run(path).Err)
	conf, model, _ := daemontest.Load(t, path)
	r := state.Rebuild{Config: conf, Model: model, Out: emitter, Log: daemontest.Quiet()}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stored, err := config.ReadStored(dir); err != nil || stored.Schema.Categorical[0] != "item" {
		t.Errorf("the rebuilt state says %v, %v", stored, err)
	}
	if again := b.Run(path); again.Err != nil || again.State(t).Rows.Train != first.State(t).Rows.Train {
		t.Errorf("the rebuilt state: %v", again.Err)
	}
	r = state.Rebuild{Config: conf, Model: model, Backup: file, Out: emitter, Log: daemontest.Quiet()}
	refused("a rebuild from a backup", r.Run(t.Context()))
	if leftover, _ := filepath.Glob(dir + ".rebuil*"); len(leftover) > 0 {
		t.Errorf("left behind: %v", leftover)
	}
	if err := state.Restore(t.Context(), dir, model, file, "", nil, daemontest.Quiet(), emitter); err != nil {
		t.Fatal(err)
	}
	refused("the backup", b.Run(path).Err)
}

// TestBackfill: a second sample from the earliest records is read while the daemon runs, waits for it to stop, and
// takes over.
func TestBackfill(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(32, 2000)
	path := b.Configure("backfill", append(daemontest.Simple, "start: earliest", "start: latest")...)
	d, stop := b.Start(path)
	daemontest.Within(t, daemontest.Patience, "the daemon to read from the end on", func() bool {
		status, _ := daemontest.Get(t, "http://"+d.Addr()+"/-/ready")
		return status == 200
	})
	b.ProduceRatings(33, 1000)
	daemontest.Within(t, daemontest.Patience, "new events", func() bool {
		_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_events_total") == 1000
	})
	conf, model, dir := daemontest.Load(t, path)
	lines := make(chan string, 1000)
	r := state.Rebuild{
		Config:   conf,
		Model:    model,
		Earliest: true,
		Out:      report.NewEmitter(lineWriter(lines), true),
		Log:      daemontest.Quiet(),
	}
	done := make(chan error, 1)
	go func() { done <- r.Run(t.Context()) }()
	for line := range lines {
		if strings.Contains(line, `"waiting":"stop the daemon`) {
			break
		}
	}
	b.ProduceRatings(34, 500) // goes to both
	daemontest.Within(t, daemontest.Patience, "more events", func() bool {
		_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_events_total") == 1500
	})
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got, want := b.Run(path), b.Run(b.Configure("calm", daemontest.Simple...))
	if got.Err != nil || want.Err != nil {
		t.Fatal(got.Err, want.Err)
	}
	sameState(t, "state after the backfill", got.State(t), want.State(t))
	if d := decisions(t, dir); len(d) != 1 || !strings.Contains(d[0].What, "earliest") {
		t.Errorf("journal %+v", d)
	}

	// Called off, it leaves the old state as it is and nothing else.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r = state.Rebuild{
		Config: conf,
		Model:  model,
		Out:    report.NewEmitter(lineWriter(lines), true),
		Log:    daemontest.Quiet(),
	}
	if err := r.Run(ctx); report.CodeOf(err) == report.ExitDone {
		t.Errorf("called off: %v", err)
	}
	if leftover, _ := filepath.Glob(dir + ".rebuil*"); len(leftover) > 0 {
		t.Errorf("left behind: %v", leftover)
	}
	again := b.Run(path)
	sameState(t, "state after a rebuild that was called off", again.State(t), want.State(t))
}

// lineWriter sends what is written to it, or drops it if nobody reads.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}

// TestBackupAndRestore: a restored state reads on to the same end, alone or in a rebuild, and a state in use is neither
// backed up nor replaced.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(35, 2000)
	path := b.Configure("backup", daemontest.Simple...)
	if o := b.Run(path); o.Err != nil {
		t.Fatal(o.Err)
	}
	conf, model, dir := daemontest.Load(t, path)
	file := filepath.Join(b.Dir, "state.backup")
	var out bytes.Buffer
	emitter := report.NewEmitter(&out, true)
	if err := state.Backup(t.Context(), dir, model.Name, file, nil, daemontest.Quiet(), emitter); err != nil {
		t.Fatal(err)
	}
	b.ProduceRatings(36, 1500)
	second := b.Run(path)
	if second.Err != nil {
		t.Fatal(second.Err)
	}
	for range 2 {
		if err := state.Restore(t.Context(), dir, model, file, "drill", nil, daemontest.Quiet(), emitter); err != nil {
			t.Fatal(err)
		}
	}
	third := b.Run(path)
	if third.Err != nil {
		t.Fatal(third.Err)
	}
	sameState(t, "restored state read on", third.State(t), second.State(t))
	if d := decisions(t, dir); len(d) != 2 || d[0].Verb != "restore" || d[1].Why != "drill" {
		t.Errorf("journal %+v", d)
	}
	if err := os.RemoveAll(filepath.Join(dir, "rows")); err != nil {
		t.Fatal(err)
	}
	r := state.Rebuild{Config: conf, Model: model, Backup: file, Out: emitter, Log: daemontest.Quiet()}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	fourth := b.Run(path)
	sameState(t, "state rebuilt from a backup", fourth.State(t), second.State(t))

	d, err := daemon.New(t.Context(),
		daemon.Options{Config: conf, UntilEnd: true, Out: report.NewEmitter(&out, true), Log: daemontest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"backup":  state.Backup(t.Context(), dir, model.Name, file, nil, daemontest.Quiet(), emitter),
		"restore": state.Restore(t.Context(), dir, model, file, "", nil, daemontest.Quiet(), emitter),
	} {
		if report.CodeOf(err) != report.ExitState || !strings.Contains(err.Error(), "in use by pid") {
			t.Errorf("%s of a state in use: %v", name, err)
		}
	}
	if err := d.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if leftover, _ := filepath.Glob(dir + ".re*"); len(leftover) > 0 {
		t.Errorf("left behind: %v", leftover)
	}
}

// TestAcceptGap: the gap that halted a partition is declared, once, and the next run reads on behind it.
func TestAcceptGap(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(37, 2000)
	path := b.Configure("gap", daemontest.Simple...)
	if first := b.Run(path); first.Err != nil {
		t.Fatal(first.Err)
	}
	b.ProduceRatings(38, 2000)
	admin := kadm.NewClient(b.Kafka)
	ends, err := admin.ListEndOffsets(t.Context(), daemontest.Topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(daemontest.Topic, 1)
	cut := kadm.Offsets{}
	cut.Add(kadm.Offset{Topic: daemontest.Topic, Partition: 1, At: end.Offset - 10})
	if _, err := admin.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	halted := b.Run(path)
	if report.CodeOf(halted.Err) != report.ExitHalted {
		t.Fatal(halted.Err)
	}
	next := halted.State(t).Partitions[1].Next
	conf, model, dir := daemontest.Load(t, path)
	var out bytes.Buffer
	accept := func(partition int32, to int64) error {
		g := state.Gap{Dir: dir, Model: model.Name, Topic: daemontest.Topic, Partition: partition, To: to,
			LogStarts: state.LogStarts(conf, model,
				daemontest.Quiet()), LogEnds: state.LogEnds(conf, model, daemontest.Quiet()),
			Why: "retention was too short", Log: daemontest.Quiet()}
		return g.Accept(t.Context(), report.NewEmitter(&out, true))
	}
	if err := accept(0, 0); report.CodeOf(err) != report.ExitNo || !strings.Contains(err.Error(), "no gap") {
		t.Errorf("a partition without a gap: %v", err)
	}
	if err := accept(9, 0); report.CodeOf(err) != report.ExitUsage {
		t.Errorf("a partition there is not: %v", err)
	}
	if err := accept(1, 0); err != nil {
		t.Fatal(err)
	}
	var line struct {
		Type string
		report.Gap
	}
	if err := json.Unmarshal(bytes.Split(out.Bytes(), []byte("\n"))[0], &line); err != nil || line.Type != "gap" ||
		line.Gap != (report.Gap{Model: "ratings", Topic: daemontest.Topic, Partition: 1, From: next, To: end.Offset - 10,
			Lost: end.Offset - 10 - next}) {
		t.Errorf("said %+v, %v", line, err)
	}
	if err := accept(1, 0); report.CodeOf(err) != report.ExitNo {
		t.Errorf("the same gap again: %v", err)
	}
	again := b.Run(path)
	if again.Err != nil {
		t.Fatal(again.Err)
	}
	if p := again.State(t).Partitions[1]; p.Gap != line.Lost || p.Next != end.Offset || p.Halted != nil {
		t.Errorf("partition %+v, want a gap of %d", p, line.Lost)
	}
	if d := decisions(t, dir); len(d) != 1 || d[0].Verb != "accept-gap" ||
		!strings.Contains(d[0].What, "declared lost") {
		t.Errorf("journal %+v", d)
	}
}

// sameState compares states without what depends on the configuration's text.
func sameState(t *testing.T, what string, got, want report.State) {
	t.Helper()
	got.Lineage, want.Lineage, got.ConfigHash, want.ConfigHash = "", "", "", ""
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n%+v, want\n%+v", what, got, want)
	}
}
