package state_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/locked"
	"github.com/refitd/refitd/daemon/daemontest/tier"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/logs"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// readiness is what /-/ready answers.
type readiness struct {
	Ready   bool
	Reasons []string
	Models  []struct {
		Model, Reason string
		Version       *int64
	}
}

func ready(t *testing.T, d *daemon.Daemon) (r readiness) {
	t.Helper()
	_, body := daemontest.Get(t, "http://"+d.Addr()+"/-/ready")
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

// TestTooFewEvents (D21): nothing to train on, or too little, is no error; /-/ready says why there is no version.
func TestTooFewEvents(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(31, 1))
	for name, c := range map[string]struct {
		values [][]byte
		reason string // of having no version
	}{
		"empty":        {nil, "no event was read"},
		"only bad":     {[][]byte{[]byte("x"), []byte("{}"), nil}, "all of the 3 records read were rejected"},
		"one event":    {[][]byte{daemontest.Rating(r)}, ""},
		"fewer than k": {[][]byte{daemontest.Rating(r), daemontest.Rating(r), daemontest.Rating(r)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.New(t)
			b.Produce(c.values...)
			path := b.Configure("n", "max_basis: 4", "max_basis: 20", "holdout: {fraction: 0.1}",
				"holdout: {fraction: 0}")
			o := b.Run(path)
			if none := report.CodeOf(o.Err) == report.ExitNo; o.Err != nil && !none || none != (c.reason != "") {
				t.Fatal(o.Err)
			}
			if n := o.Count("version"); (n == 0) != (c.reason != "") {
				t.Errorf("%d versions", n)
			}
			for _, l := range o.Lines {
				if l["type"] == "version" && (l["objective"] == nil || l["decision"] != "promoted") {
					t.Errorf("version %v", l)
				}
			}
			verified(b, path)
			d, stop := b.Start(b.Configure("n2", "holdout: {fraction: 0.1}", "holdout: {fraction: 0}"))
			defer stop()
			daemontest.Within(t, daemontest.Patience, "readiness", func() bool {
				got := ready(t, d)
				return got.Ready && len(got.Models) == 1 && got.Models[0].Version == nil &&
					strings.Contains(got.Models[0].Reason, c.reason)
			})
		})
	}
}

// TestHostileStamp (D8): an event from the future does not move the watermark past the record's own time by more than
// the skew allowed.
func TestHostileStamp(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	for _, ts := range []string{"0", "-1", "253402300799999", "9223372036854775807", fmt.Sprint(time.Now().AddDate(10, 0,
		0).UnixMilli()),
		`"9999-12-31T23:59:59Z"`} {
		b.Produce(fmt.Appendf(nil, `{"user":"u","item":"i","rating":3,"ts":%s}`, ts))
	}
	b.ProduceRatings(32, 50)
	d, stop := b.Start(b.Configure("s", "half_life: 0s", "half_life: 30d"))
	defer stop()
	metric := func(name string) float64 {
		_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, name)
	}
	daemontest.Within(
		t,
		daemontest.Patience,
		"all events and the watermark",
		func() bool { // metrics are not set all at once
			return metric("refitd_events_total") == 54 && metric("refitd_events_rejected_total") == 2 &&
				metric("refitd_event_time_watermark_timestamp_seconds") > 0
		},
	)
	if at := metric("refitd_event_time_watermark_timestamp_seconds"); at > float64(
		time.Now().Add(5*time.Minute).Unix()) ||
		at < 1.7e9 {
		t.Errorf("watermark %f", at)
	}
}

// TestFutureRecords: records whose own time stamps are ten years ahead neither own a sample that forgets nor move the
// watermark, and verify, which reads them later, comes to the same rows. In a topic that the broker stamps its word is
// taken.
func TestFutureRecords(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	now := time.Now()
	produce := func(from, n int, name string, at time.Time) {
		var records []*kgo.Record
		for i := range n {
			records = append(
				records,
				&kgo.Record{
					Partition: 0,
					Key:       fmt.Append(nil, i%7),
					Timestamp: at.Add(time.Duration(i) * time.Millisecond),
					Value:     fmt.Appendf(nil, `{"user":"%s%d","item":"i%d","rating":%d}`, name, (from+i)%50, i%30, 1+i%5),
				},
			)
		}
		if err := b.Kafka.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		produce(i*400, 400, "u", now.Add(time.Duration(i-5)*time.Minute))
		produce(i*40, 40, "hostile", now.AddDate(10, 0, 0))
	}
	edit := []string{
		"time: ts, time_unit: ms, ",
		"",
		"size: 20000",
		"size: 200, half_life: 1h",
		"max_basis: 4",
		"max_basis: 1",
	}
	path := b.Configure("f", edit...)
	o := b.Run(path)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	if n := daemontest.Balanced(t, o.State(t)); n != 2200 {
		t.Errorf("%d events applied, want 2200", n)
	}
	_, m, dir := daemontest.Load(t, path)
	store, err := sketch.OpenExisting(t.Context(), dir, daemontest.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	state, err := store.State()
	if err != nil {
		t.Fatal(err)
	}
	hostile := 0
	for i := range 50 {
		n, err := ingest.CountRows(m, store, "user", fmt.Sprint("hostile", i))
		if err != nil {
			t.Fatal(err)
		}
		hostile += n
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if at := time.UnixMilli(state.Watermark); at.After(now.Add(time.Hour)) || at.Before(now.Add(-2*time.Minute)) {
		t.Errorf("watermark %v, now %v", at, now)
	}
	if hostile > 60 { // a share of one in eleven in 200 rows
		t.Errorf("%d of %v rows are of the records from the future", hostile, state.Rows)
	}
	verified(b, path)
	d, stop := b.Start(b.Configure("f2", edit...))
	defer stop()
	daemontest.Within(t, daemontest.Patience, "the count of replaced times", func() bool {
		_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_event_times_bounded_total") == 200
	})
}

// TestKeyFlood (D9): with a new name in every event, sample and vocabulary stay within their bounds, and what is left
// out is counted.
func TestKeyFlood(t *testing.T) {
	t.Parallel()
	n := tier.Size(8000, 40_000)
	b := daemontest.New(t)
	values := make([][]byte, n)
	for i := range values {
		values[i] = fmt.Appendf(nil, `{"user":"user-%d","item":"item-%d","rating":%d,"ts":%d}`, i, i*7, 1+i%5,
			1700000000000+i)
	}
	b.Produce(values...)
	d, stop := b.Start(
		b.Configure("f", "size: 20000", "size: 2000", "every_events: 0", "every_events: 4000, max_features: 300"))
	var metrics string
	daemontest.Within(t, daemontest.Patience, "events and a version", func() bool {
		_, metrics = daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_events_total") == float64(n) &&
			daemontest.Sum(t, metrics, "refitd_vocabulary_features") > 0
	})
	rows, features, dropped := daemontest.Sum(t, metrics, "refitd_sample_rows"), daemontest.Sum(t, metrics,
		"refitd_vocabulary_features"),
		daemontest.Sum(t, metrics, "refitd_vocabulary_dropped_total")
	if rows > 2200 || features > 300 || dropped < 3000 {
		t.Errorf("%g rows, %g features, %g names left out", rows, features, dropped)
	}
	if bytes := daemontest.Sum(t, metrics, "refitd_sample_bytes"); bytes > 2200*300 {
		t.Errorf("the sample takes %g bytes", bytes)
	}
	stop()
}

// TestDuplicateFlood (D11): under an identity, an event that is sent again and again is in the sample once, and
// counted.
func TestDuplicateFlood(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	var values [][]byte
	for i := range 6000 {
		values = append(values, []byte(`{"id":"same","user":"u1","item":"i1","rating":5,"ts":1700000000000}`))
		if i%20 == 0 {
			values = append(
				values,
				fmt.Appendf(nil, `{"id":"e%d","user":"u%d","item":"i%d","rating":%d,"ts":1700000000000}`, i, i%50, i%30,
					1+i%5),
			)
		}
	}
	b.Produce(values...)
	path := b.Configure("d", "time_unit: ms,", "time_unit: ms, identity: id,")
	o := b.Run(path)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	if s := o.State(t); s.Rows.Train+s.Rows.Holdout != 301 || daemontest.Balanced(t, s) != 6300 {
		t.Errorf("%+v rows of %d events, want 301", s.Rows, daemontest.Balanced(t, s))
	}
	verified(b, path)
	d, stop := b.Start(b.Configure("d2", "time_unit: ms,", "time_unit: ms, identity: id,"))
	defer stop()
	daemontest.Within(t, daemontest.Patience, "the duplicates", func() bool {
		_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_duplicates_in_window_total") == 5999
	})
}

// hostileRecords are good and bad records with text in them that must not get out of its place.
func hostileRecords() (values [][]byte, marks []string) {
	marks = []string{"forged-line", "\\u001b[31m", "../../etc", "MARK"}
	for i, id := range []string{`a\nlevel=ERROR msg=forged-line`, `\u001b[31mMARK`, `../../etc/passwd`,
		`<script>MARK</script>`, `MARK\u202e`, `{MARK=\"x\"}`,
		`MARK\u0000`} {
		values = append(values,
			fmt.Appendf(nil, `{"user":"%s","item":"%s","rating":%d,"ts":1700000000000}`, id, id, 1+i%5),
			fmt.Appendf(nil, `{"user":"%s","item":"%s","rating":"%s","ts":1700000000000}`, id, id, id),
			fmt.Appendf(nil, `%s`, id), []byte("MARK\x1b[2J\n\rMARK"), []byte(`{"MARK":`+strings.Repeat("[", 5000)))
	}
	return values, marks
}

// TestErrorFlood (D15, D16): a topic of nothing but bad records fills neither the log nor leaves anything of them in
// it.
func TestErrorFlood(t *testing.T) {
	t.Parallel()
	n := tier.Size(60, 300)
	b := daemontest.New(t)
	hostile, marks := hostileRecords()
	var values [][]byte
	for range n {
		values = append(values, hostile...)
	}
	b.Produce(values...)
	conf, err := config.Load(
		b.Configure("e", "fetch_max_wait: 100ms", "fetch_max_wait: 100ms, max_partition_fetch_bytes: 16KiB"))
	if err != nil {
		t.Fatal(err)
	}
	var log locked.Buffer
	began := time.Now()
	d, err := daemon.New(
		t.Context(),
		daemon.Options{Config: conf, UntilEnd: true, Out: report.NewEmitter(new(bytes.Buffer), true),
			Log: slog.New(logs.NewHandler(slog.NewJSONHandler(&log, nil), time.Now))},
	)
	if err == nil {
		err = d.Run(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	seconds := time.Since(began).Seconds()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	rejected := 0
	for _, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if m["msg"] == "records rejected" {
			rejected++
		}
		for _, mark := range marks {
			if strings.Contains(line, mark) {
				t.Errorf("text of a record is in the log: %s", line)
			}
		}
	}
	if most := 10*seconds + 30; float64(len(lines)) > most || rejected == 0 ||
		rejected > logs.Burst*(1+int(seconds/logs.Window.Seconds())) {
		t.Errorf("%d lines in %.1f s, %d about rejections", len(lines), seconds, rejected)
	}
}

// TestCardinality (D17): series are bounded, and no label has a value that a producer chose.
func TestCardinality(t *testing.T) {
	t.Parallel()
	const partitions = 64
	b := daemontest.New(t)
	if err := b.Broker.CreateTopic(t.Context(), "wide", partitions, 0); err != nil {
		t.Fatal(err)
	}
	hostile, _ := hostileRecords()
	var values [][]byte
	for i := range 40 {
		values = append(values, hostile...)
		values = append(values, fmt.Appendf(nil, `{"user":"user-%d","item":"item-%d","rating":3,"ts":1}`, i, i))
	}
	b.ProduceTo("wide", values...)
	b.Produce(hostile...)
	d, stop := b.Start(b.Configure("c", "topics: [ratings]", "topics: [ratings, wide]"))
	defer stop()
	var metrics string
	daemontest.Within(t, daemontest.Patience, "all records", func() bool {
		_, metrics = daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_events_total")+daemontest.Sum(t, metrics,
			"refitd_events_rejected_total") == float64(len(values)+len(hostile))
	})
	series := 0
	fixed := regexp.MustCompile(`^[a-z0-9_.+:/-]*$`) // versions, numbers, and words of ours
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		series++
		for _, label := range regexp.MustCompile(`="((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(line, -1) {
			if value := strings.ToLower(label[1]); !fixed.MatchString(value) || strings.Contains(value, "mark") ||
				strings.HasPrefix(value, "user-") {
				t.Errorf("label value %q in %s", label[1], line)
			}
		}
	}
	if most := 2000 + 20*(partitions+4); series > most {
		t.Errorf("%d series, at most %d", series, most)
	}
	t.Logf("%d series with %d partitions", series, partitions+4)
}

// TestHeaders (D18): headers are not read, however many or large they are.
func TestHeaders(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	r := rand.New(rand.NewPCG(33, 1))
	many := make([]kgo.RecordHeader, 10_000)
	for i := range many {
		many[i] = kgo.RecordHeader{Key: fmt.Sprintf("h%d", i), Value: []byte{byte(i)}}
	}
	for _, headers := range [][]kgo.RecordHeader{many, {{Key: "big", Value: make([]byte, 900_000)}}, {{Key: "",
		Value: nil}},
		{{Key: "a\nb\xff", Value: []byte("x")}}} {
		if err := b.Kafka.ProduceSync(t.Context(), &kgo.Record{Value: daemontest.Rating(r),
			Headers: headers}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	path := b.Configure("h")
	if o := b.Run(path); o.Err != nil || daemontest.Balanced(t, o.State(t)) != 4 {
		t.Errorf("%v, %+v", o.Err, o.Summary)
	}
	verified(b, path)
}

// TestSchemaChanges (D19): when producers change their events and back, those that still fit are learned, the others
// rejected, none is lost.
func TestSchemaChanges(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	r := rand.New(rand.NewPCG(34, 1))
	var values [][]byte
	for i := range 900 {
		v := daemontest.Rating(r)
		switch i / 300 % 3 {
		case 1: // another field more, and every other event with another name for the label
			v = bytes.Replace(v, []byte(`{`), []byte(`{"version":2,`), 1)
			if i%2 == 0 {
				v = bytes.Replace(v, []byte(`"rating"`), []byte(`"stars"`), 1)
			}
		}
		values = append(values, v)
	}
	b.Produce(values...)
	path := b.Configure("v")
	o := b.Run(path)
	if o.Err != nil || daemontest.Balanced(t, o.State(t)) != 750 ||
		o.State(t).RejectedByReason["missing_field"] != 150 {
		t.Errorf("%v, %+v", o.Err, o.Summary)
	}
	verified(b, path)
}

// TestLargeMessages (D4): a message that is too large is rejected, and takes a few times its size in memory at most.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	sizes := tier.Size([]int{1 << 20, 8 << 20}, []int{1 << 20, 8 << 20, 64 << 20})
	peak := func(name string, sizes ...int) (kilobytes int64) {
		b := daemontest.New(t)
		b.ProduceRatings(35, 500)
		large := "200000000"
		if _, err := kadm.NewClient(b.Kafka).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes",
			Value: &large}},
			daemontest.Topic); err != nil {
			t.Fatal(err)
		}
		for _, size := range sizes {
			value := append(append([]byte(`{"user":"`), bytes.Repeat([]byte("x"), size)...), `"}`...)
			client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.DefaultProduceTopic(daemontest.Topic),
				kgo.ProducerBatchMaxBytes(100<<20), kgo.BrokerMaxWriteBytes(200<<20),
				kgo.ProducerBatchCompression(kgo.NoCompression()))
			if err != nil {
				t.Fatal(err)
			}
			err = client.ProduceSync(t.Context(), &kgo.Record{Value: value}).FirstErr()
			client.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
		path := b.Configure(name)
		cmd, stderr := daemontest.ChildOf(t, path)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		s := parseOutcome(t, out)
		if daemontest.Balanced(t, s) != 500 || s.RejectedByReason["too_large"] != int64(len(sizes)) {
			t.Errorf("%s: %d applied, rejected %v", name, daemontest.Balanced(t, s), s.RejectedByReason)
		}
		return daemontest.PeakMemory(t, stderr)
	}
	without, with := peak("small"), peak("large", sizes...)
	t.Logf("peak memory %d kB without, %d kB with messages of %v bytes", without, with, sizes)
	bar := 6*int64(slices.Max(sizes))>>10 + 32<<10 // a buffer that doubles, twice
	if tier.UnderRace() {
		bar *= 10 // the most that the detector multiplies memory by
	}
	if growth := with - without; growth > bar {
		t.Errorf("peak memory grew by %d kB", growth)
	}
}

func parseOutcome(t *testing.T, out []byte) report.State {
	t.Helper()
	o := daemontest.Parse(t, out, nil)
	return o.State(t)
}
