package daemon_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/daemontest"
)

// scored is an answer as a reader of the topic sees it, with the partition and the key of the record.
type scored struct {
	Topic          string         `json:"topic"`
	Partition      int32          `json:"partition"`
	Offset         int64          `json:"offset"`
	Model          string         `json:"model"`
	Version        int64          `json:"version"`
	Digest         string         `json:"digest"`
	Delta          int64          `json:"delta"`
	DeltaDigest    string         `json:"delta_digest"`
	FeaturesDigest string         `json:"features_digest"`
	Propensity     *float64       `json:"propensity"`
	Prediction     any            `json:"prediction"`
	Outputs        []float64      `json:"outputs"`
	Probabilities  []float64      `json:"probabilities"`
	Unseen         []string       `json:"unseen"`
	Error          map[string]any `json:"error"`
	at             int32
	key            []byte
}

// records reads a topic up to its last committed record.
func records(b *daemontest.Bench, topic string) (list []*kgo.Record) {
	b.T.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())
	if err != nil {
		b.T.Fatal(err)
	}
	defer reader.Close()
	ends, err := kadm.NewClient(reader).ListCommittedOffsets(b.T.Context(), topic)
	if err != nil || ends.Error() != nil {
		b.T.Fatal(err, ends.Error())
	}
	left := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left++
		}
	})
	for left > 0 {
		fetches := reader.PollFetches(b.T.Context())
		if err := fetches.Err(); err != nil {
			b.T.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if end, ok := ends.Lookup(topic, r.Partition); ok && r.Offset+1 == end.Offset {
				left--
			}
			if !r.Attrs.IsControl() {
				list = append(list, r)
			}
		})
	}
	return list
}

// answers reads the topic of scores and checks the order of each partition of the events: every offset once, after
// those before it.
func answers(b *daemontest.Bench, topic string) (list []scored) {
	b.T.Helper()
	last := map[string]int64{}
	for _, r := range records(b, topic) {
		a := scored{at: r.Partition, key: r.Key}
		if err := json.Unmarshal(r.Value, &a); err != nil {
			b.T.Fatalf("%s: %v", r.Value, err)
		}
		from := fmt.Sprint(a.Topic, "/", a.Partition)
		if before, ok := last[from]; ok && a.Offset <= before {
			b.T.Errorf("%s offset %d is answered after %d", from, a.Offset, before)
		}
		last[from] = a.Offset
		list = append(list, a)
	}
	return list
}

// scoredUpTo waits until a daemon has answered so many offsets.
func scoredUpTo(t *testing.T, base string, n float64) {
	t.Helper()
	daemontest.Within(t, daemontest.Patience, fmt.Sprint(n, " answers"), func() bool {
		_, text := daemontest.Get(t, base+"/metrics")
		return daemontest.Sum(t, text, "refitd_score_records_total") == n
	})
}

// TestScoresAreWritten: every record of the topics of events has one answer, in order and in its partition, whether it
// is an event or not, also after a restart and when versions change in between. An answer is what the version that it
// names says over HTTP.
func TestScoresAreWritten(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(51, 1500)
	path := scoring(b, "s", "propensity: p")
	d, _, stop := startWith(b, path)
	base := "http://" + d.Addr()
	scoredUpTo(t, base, 1500)
	// No label, a propensity, an unknown name; then records that are no events, and one whose propensity is none.
	more := [][]byte{
		[]byte(`{"user":"u1","item":"i2","p":0.25}`),
		[]byte(`{"user":"stranger","item":"i2","p":null}`),
		[]byte(`{"user":"u1"}`),
		[]byte("nonsense"),
		[]byte(`{"user":"u1","item":"i2","p":0}`),
		[]byte(`{"user":"u1","item":"i2","p":"1"}`),
		nil,
	}
	b.Produce(more...)
	b.ProduceRatings(52, 1500)
	scoredUpTo(t, base, 3007)
	daemontest.Within(t, daemontest.Patience, "another version", func() bool {
		_, text := daemontest.Get(t, base+"/metrics")
		return daemontest.Sum(t, text, "refitd_snapshot_version") > 1
	})
	first := answers(b, "scores")

	var sample scored
	for _, a := range first { // the slow twin: HTTP
		if a.Propensity != nil {
			sample = a
		}
	}
	if sample.Propensity == nil || *sample.Propensity != 0.25 || string(sample.key) != "0" {
		t.Fatalf("the answer with a propensity is %+v", sample)
	}
	sum := sha256.Sum256([]byte(`{"item":"i2","user":"u1"}`))
	if want := "sha256:" + hex.EncodeToString(sum[:]); sample.FeaturesDigest != want {
		t.Errorf("features digest %s, want %s", sample.FeaturesDigest, want)
	}
	resp, err := http.Post(fmt.Sprintf("%s/v1/models/ratings/versions/%d/score", base, sample.Version),
		"application/json", strings.NewReader(`{"events":[{"user":"u1","item":"i2"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var over struct {
		Version     int64    `json:"version"`
		Digest      string   `json:"digest"`
		Predictions []scored `json:"predictions"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&over); err != nil || len(over.Predictions) != 1 {
		t.Fatal(err, over)
	}
	if p := over.Predictions[0]; over.Digest != sample.Digest || p.Prediction != sample.Prediction ||
		!reflect.DeepEqual(p.Outputs, sample.Outputs) ||
		!reflect.DeepEqual(p.Probabilities, sample.Probabilities) {
		t.Errorf("HTTP says %+v of version %s, the topic %+v", p, over.Digest, sample)
	}
	stop()

	b.ProduceRatings(53, 300)
	d, _, stop = startWith(b, path)
	scoredUpTo(t, "http://"+d.Addr(), 300)
	stop()
	all := answers(b, "scores")
	events := records(b, daemontest.Topic)
	if len(all) != 3307 || len(events) != 3307 {
		t.Errorf("%d answers to %d records", len(all), len(events))
	}
	keys := map[string][]byte{}
	for _, r := range events {
		keys[fmt.Sprint(r.Partition, "/", r.Offset)] = r.Key
	}
	reasons, versions := map[string]int{}, map[int64]bool{}
	for _, a := range all {
		if key, ok := keys[fmt.Sprint(a.Partition, "/", a.Offset)]; !ok || !bytes.Equal(key, a.key) || a.at != a.Partition ||
			a.Model != "ratings" ||
			a.Topic != daemontest.Topic || a.Version < 1 ||
			a.Digest == "" {
			t.Fatalf("answer %+v to the key %q", a, key)
		}
		versions[a.Version] = true
		if a.Error != nil {
			reasons[fmt.Sprint(a.Error["reason"], " ", a.Error["field"])]++
			if a.Prediction != nil {
				t.Errorf("an answer has an error and a prediction: %+v", a)
			}
		} else if a.Prediction == nil || a.FeaturesDigest == "" {
			t.Errorf("an answer has neither error nor prediction: %+v", a)
		}
	}
	want := map[string]int{
		"missing_field item": 1,
		"not_json <nil>":     1,
		"number_range p":     1,
		"wrong_type p":       1,
		"null_value <nil>":   1,
	}
	if !reflect.DeepEqual(reasons, want) {
		t.Errorf("reasons %v, want %v", reasons, want)
	}
	if len(versions) < 2 {
		t.Errorf("scored by the versions %v only", versions)
	}
}

// TestScoringWithoutTransactions: brokers that refuse transactions, or have none, get each offset answered at least
// once, and that is said; where they are required nothing is scored, and the model is not ready.
func TestScoringWithoutTransactions(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "required", "off"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := daemontest.New(t)
			b.Broker.Cluster().
				ControlKey(int16(kmsg.InitProducerID), func(q kmsg.Request) (kmsg.Response, error, bool) {
					b.Broker.Cluster().KeepControl()
					if q := q.(*kmsg.InitProducerIDRequest); q.TransactionalID != nil {
						r := q.ResponseKind().(*kmsg.InitProducerIDResponse)
						r.ErrorCode, r.ProducerID = kerr.TransactionalIDAuthorizationFailed.Code, -1
						return r, nil, true
					}
					return nil, nil, false
				})
			b.ProduceRatings(54, 900)
			d, _, stop := startWith(b, scoring(b, "w", "transactions: "+mode))
			defer stop()
			base := "http://" + d.Addr()
			if mode == "required" {
				daemontest.Within(t, daemontest.Patience, "a model that is not ready", func() bool {
					status, text := daemontest.Get(t, base+"/-/ready")
					return status == http.StatusServiceUnavailable &&
						strings.Contains(text, "scoring: not allowed: transactions need") &&
						strings.Contains(text, "begin with g-w-score-ratings-")
				})
				return
			}
			scoredUpTo(t, base, 900)
			if n := len(answers(b, "scores")); n != 900 {
				t.Errorf("%d answers to 900 events", n)
			}
			if _, text := daemontest.Get(t, base+"/metrics"); !strings.Contains(text,
				`refitd_score_exactly_once{model="ratings"} 0`) {
				t.Error("the metric does not say that offsets are answered at least once")
			}
			if _, page := daemontest.Get(t, base+"/"); !strings.Contains(page,
				"to scores, at least once: 900 offsets answered") {
				t.Errorf("the page does not say so: %s", page)
			}
		})
	}
}

// scoring is the configuration of a daemon that scores, with quick refits.
func scoring(b *daemontest.Bench, name, score string) string {
	return b.Configure(
		name,
		append([]string{"start: earliest}", "start: earliest, on_gap: record}", "every_events: 0", "every_events: 500",
			"gate: {min_rows: 20}}", "gate: {min_rows: 20, tolerance: 1}}\n    score: {topic: scores, " + score + "}"},
			daemontest.Simple...)...)
}

// TestScoringOfTransactions: aborted records and markers of the events' producers have no answer, and leave no lag.
func TestScoringOfTransactions(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(55, 900)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.DefaultProduceTopic(daemontest.Topic),
		kgo.TransactionalID("events"), kgo.TransactionTimeout(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for p := range 40 {
			r := &kgo.Record{Key: fmt.Append(nil, i, "/", p), Value: []byte(`{"user":"u1","item":"i2"}`)}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	d, _, stop := startWith(b, scoring(b, "t", "start: earliest"))
	defer stop()
	base := "http://" + d.Addr()
	scoredUpTo(t, base, 980)
	daemontest.Within(t, daemontest.Patience, "no lag", func() bool {
		_, text := daemontest.Get(t, base+"/metrics")
		return strings.Contains(text, `refitd_score_lag_records{model="ratings"} 0`)
	})
	if n, want := len(answers(b, "scores")), len(records(b, daemontest.Topic)); n != 980 || want != 980 {
		t.Errorf("%d answers to %d records, want 980", n, want)
	}
}

// TestScoringFromTheEnd: start: latest answers what comes from the first start on, also what came while the daemon was
// down afterwards, and retention that was faster is counted.
func TestScoringFromTheEnd(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(56, 900)
	path := scoring(b, "l", "start: latest")
	d, _, stop := startWith(b, path)
	base := "http://" + d.Addr()
	daemontest.Within(t, daemontest.Patience, "a group", func() bool {
		_, text := daemontest.Get(t, base+"/metrics")
		return strings.Contains(text, `refitd_score_lag_records{model="ratings"} 0`)
	})
	stop() // before the first answer
	b.ProduceRatings(57, 200)
	d, _, stop = startWith(b, path)
	scoredUpTo(t, "http://"+d.Addr(), 200)
	stop()

	b.ProduceRatings(58, 200)
	admin := kadm.NewClient(b.Kafka)
	ends, err := admin.ListEndOffsets(t.Context(), daemontest.Topic)
	if err != nil {
		t.Fatal(err)
	}
	cut, lost := kadm.Offsets{}, 0.0 // all but the last 10 of each partition
	before := map[int32]int64{}
	for _, a := range answers(b, "scores") {
		before[a.Partition] = a.Offset + 1
	}
	ends.Each(func(o kadm.ListedOffset) {
		cut.AddOffset(o.Topic, o.Partition, o.Offset-10, -1)
		lost += float64(o.Offset - 10 - before[o.Partition])
	})
	if _, err := admin.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	d, log, stop := startWith(b, path)
	defer stop()
	base = "http://" + d.Addr()
	scoredUpTo(t, base, 40)
	if _, text := daemontest.Get(t, base+"/metrics"); daemontest.Sum(t, text,
		"refitd_score_lost_offsets_total") != lost {
		t.Errorf("%g offsets lost, want %g: %s", daemontest.Sum(t, text, "refitd_score_lost_offsets_total"), lost,
			log.String())
	}
	if n := len(answers(b, "scores")); n != 240 {
		t.Errorf("%d answers, want 240", n)
	}
}

// TestScoringTogether: daemons with the same group share the partitions, and hand them over when one comes and when one
// goes: each offset has one answer.
func TestScoringTogether(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(59, 900)
	d, _, stop := startWith(b, scoring(b, "one", "group: together"))
	scoredUpTo(t, "http://"+d.Addr(), 900)
	other, _, stopOther := startWith(b, scoring(b, "two", "group: together"))
	defer stopOther()
	answered := func(d *daemon.Daemon) float64 {
		_, text := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, text, "refitd_score_records_total")
	}
	total, seed := 900, uint64(60)
	daemontest.Within(t, daemontest.Patience, "both at work", func() bool {
		b.ProduceRatings(seed, 20)
		total, seed = total+20, seed+1
		return answered(other) > 0
	})
	stop()
	b.ProduceRatings(seed, 400)
	total += 400
	daemontest.Within(t, daemontest.Patience, "the partitions of the one that went",
		func() bool { return len(records(b, "scores")) >= total })
	if n := len(answers(b, "scores")); n != total {
		t.Errorf("%d answers to %d events", n, total)
	}
}
