package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/progress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startBroker(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// options returns a replay of a file with the given text to a new topic.
func options(t testing.TB, c *kfake.Cluster, text string) Options {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Options{
		Path:             path,
		Format:           dataset.MovieLens,
		BootstrapServers: c.ListenAddrs(),
		Topic:            "ratings",
		Partitions:       4,
		Key:              "user",
		Order:            dataset.FileOrder,
	}
}

// A broker that begins to listen after the replay has begun gets the records all the same.
func TestBrokerThatStarts(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	o := options(t, startBroker(t), ratingLines(10))
	o.BootstrapServers = []string{free.Addr().String()}
	free.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), o)
		sent <- err
	}()
	time.Sleep(300 * time.Millisecond) // the pause itself: of refused connections
	late := startBroker(t, kfake.Ports(port))
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	topic(t, late, 10)
}

// topic reads n records with an independent client.
func topic(t *testing.T, c *kfake.Cluster, n int64) map[int32][]*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("ratings"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out := make(map[int32][]*kgo.Record)
	for got := int64(0); got < n; {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", got, n, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			out[r.Partition] = append(out[r.Partition], r)
			got++
		})
	}
	return out
}

// ratingLines returns n ratings of 50 users.
func ratingLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\t%d\t%d\t%d\n", i%50, i, 1+i%5, 1000+n-i)
	}
	return b.String()
}

func TestReplay(t *testing.T) {
	c := startBroker(t)
	const n = 5000
	o := options(t, c, ratingLines(n)+"rubbish\n\n")
	summary, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if summary.Records != n || summary.Acknowledged != n || summary.SkippedLines != 1 || len(summary.Partitions) != 4 {
		t.Errorf("summary %+v", summary)
	}
	records := topic(t, c, n)
	bytes, next := int64(0), 0
	seen := make(map[string]int32)
	for p, s := range summary.Partitions {
		list := records[int32(p)]
		if s.Partition != int32(p) || *s.First != 0 || *s.Last != int64(len(list)-1) {
			t.Errorf("partition %d: %d records, summary %d to %d", p, len(list), *s.First, *s.Last)
		}
		last := -1
		for _, r := range list {
			bytes += int64(len(r.Value))
			var user, item, rating, ts int
			if _, err := fmt.Sscanf(string(r.Value), `{"user":"%d","item":"%d","rating":%d,"ts":%d}`, &user, &item, &rating,
				&ts); err != nil {
				t.Fatalf("value %s: %v", r.Value, err)
			}
			if item <= last || string(r.Key) != fmt.Sprint(user) || ts != (1000+n-item)*1000 {
				t.Fatalf("record %s with key %s after item %d", r.Value, r.Key, last)
			}
			if where, ok := seen[string(r.Key)]; ok && where != r.Partition {
				t.Fatalf("user %s is in partitions %d and %d", r.Key, where, r.Partition)
			}
			seen[string(r.Key)] = r.Partition
			if age := time.Since(r.Timestamp); age < 0 || age > time.Minute {
				t.Fatalf("time stamp %v", r.Timestamp)
			}
			last = item
			next++
		}
	}
	if summary.Bytes != bytes || next != n {
		t.Errorf("%d bytes in the topic, summary %d", bytes, summary.Bytes)
	}
	// The partition is that of the Java client.
	for key, where := range seen {
		if want := kgo.StickyKeyPartitioner(nil).ForTopic("ratings").Partition(&kgo.Record{Key: []byte(key)}, 4); int(
			where) != want {
			t.Errorf("user %s is in partition %d, the Java client's is %d", key, where, want)
		}
	}

	// A second replay continues where the first ended, in the partitions there are.
	o.Partitions, o.Limit = 9, 10
	summary, err = Run(context.Background(), o)
	if err != nil || summary.Records != 10 || len(summary.Partitions) != 4 {
		t.Fatalf("%+v, %v", summary, err)
	}
	for p, s := range summary.Partitions {
		if s.First != nil && *s.First != int64(len(records[int32(p)])) {
			t.Errorf("partition %d continues at %d", p, *s.First)
		}
	}
}

func TestOrdersAndTimes(t *testing.T) {
	for _, order := range []dataset.Order{dataset.TimeOrder, dataset.ShuffleOrder} {
		t.Run(string(order), func(t *testing.T) {
			c := startBroker(t)
			o := options(t, c, ratingLines(300))
			o.Partitions, o.Order, o.Seed, o.EventTime, o.Limit = 1, order, 3, true, 100
			if _, err := Run(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			var times []int64
			for _, r := range topic(t, c, 100)[0] {
				times = append(times, r.Timestamp.UnixMilli())
			}
			if sorted := slices.IsSorted(times); sorted != (order == dataset.TimeOrder) {
				t.Errorf("sorted by time: %t", sorted)
			}
			if order == dataset.TimeOrder && times[0] != 1001_000 {
				t.Errorf("first time %d: --limit must keep the earliest", times[0])
			}
		})
	}
}

func TestRecordsWithoutKeysGoRound(t *testing.T) {
	c := startBroker(t)
	o := options(t, c, "a\nb\n\nd\ne\nf\ng\nh\n")
	o.Format = dataset.Lines
	if _, err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	records := topic(t, c, 8)
	for p, want := range []string{"ae", "bf", "g", "dh"} {
		got := ""
		for _, r := range records[int32(p)] {
			got += string(r.Value)
		}
		if got != want || len(records[int32(p)]) != 2 {
			t.Errorf("partition %d holds %q, want %q", p, got, want)
		}
	}
}

// TestKeylessAreLogged: records that have nothing in the field of --key are counted in the log, those of formats that
// have no keys are not.
func TestKeylessAreLogged(t *testing.T) {
	for text, want := range map[string]string{
		`{"user":"a"}` + "\n" + `{"id":1}` + "\n" + `{"id":2}` + "\n": "key=user records=2",
		`{"user":"a"}` + "\n": "", "a\n": "",
	} {
		o := options(t, startBroker(t), text)
		var log bytes.Buffer
		o.Format, o.Log = dataset.JSONL, slog.New(slog.NewTextHandler(&log, nil))
		if text == "a\n" {
			o.Format = dataset.Lines
		}
		if _, err := Run(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), want) || want == "" && log.Len() > 0 {
			t.Errorf("%s: log %q, want %q", text, log.String(), want)
		}
	}
}

// TestBatchIsTakenOnce: a request whose answer leaves open whether the broker took it is sent again, under the same
// sequence number, and an error that lasts ends the replay.
func TestBatchIsTakenOnce(t *testing.T) {
	c := startBroker(t, kfake.SeedTopics(1, "ratings"))
	var sequences []int32 // of requests, one after the other
	refuse := func(code int16, keep bool) {
		c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
			if keep {
				c.KeepControl()
			}
			response := req.ResponseKind().(*kmsg.ProduceResponse)
			for _, rt := range req.(*kmsg.ProduceRequest).Topics {
				st := kmsg.NewProduceResponseTopic()
				st.Topic, st.TopicID = rt.Topic, rt.TopicID
				for _, rp := range rt.Partitions {
					var batch kmsg.RecordBatch
					if err := batch.ReadFrom(rp.Records); err != nil || batch.ProducerID < 0 {
						t.Errorf("a batch of producer %d, %v", batch.ProducerID, err)
					}
					sequences = append(sequences, batch.FirstSequence)
					sp := kmsg.NewProduceResponseTopicPartition()
					sp.Partition, sp.ErrorCode = rp.Partition, code
					st.Partitions = append(st.Partitions, sp)
				}
				response.Topics = append(response.Topics, st)
			}
			return response, nil, true
		})
	}
	o := options(t, c, ratingLines(20))
	refuse(kerr.RequestTimedOut.Code, false) // the broker may or may not have taken it
	refuse(kerr.NotLeaderForPartition.Code, false)
	summary, err := Run(context.Background(), o)
	if err != nil || summary.Acknowledged != 20 {
		t.Fatalf("%+v, %v", summary, err)
	}
	if got := len(topic(t, c, 20)[0]); got != 20 {
		t.Errorf("%d records in the topic", got)
	}
	if len(sequences) != 2 || sequences[0] != 0 || sequences[1] != 0 {
		t.Errorf("sequence numbers %v of refused requests, want two of 0", sequences)
	}

	refuse(kerr.TopicAuthorizationFailed.Code, true)
	summary, err = Run(context.Background(), o)
	if !errors.Is(err, ErrBroker) || !errors.Is(err, kerr.TopicAuthorizationFailed) || summary.Acknowledged != 0 {
		t.Errorf("summary %+v, error %v", summary, err)
	}
}

func TestUnreachableBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	o := options(t, startBroker(t), ratingLines(1))
	o.BootstrapServers = []string{address}
	_, err = Run(context.Background(), o)
	if !errors.Is(err, ErrBroker) || !strings.Contains(err.Error(), "--bootstrap-servers ["+address+"]") {
		t.Errorf("error %v", err)
	}
}

// TestCancel checks that what was handed over is acknowledged, and that the summary says so.
func TestCancel(t *testing.T) {
	c := startBroker(t)
	o := options(t, c, ratingLines(1000))
	o.Rate = 200
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Progress = progress.Start(
		"replay",
		progress.NewScreen(writerFunc(func(b []byte) { cancel() })),
		nil,
	) // when it first draws
	summary, err := Run(ctx, o)
	o.Progress.Stop()
	if err != nil || summary.Records == 0 || summary.Records == 1000 || summary.Acknowledged != summary.Records {
		t.Errorf("summary %+v, error %v", summary, err)
	}
	topic(t, c, summary.Records)
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

func TestRefusals(t *testing.T) {
	c := startBroker(t)
	for name, test := range map[string]struct {
		text   string
		change func(*Options)
		want   string
	}{
		"rate and speedup":    {"", func(o *Options) { o.Rate, o.Speedup = 1, 1 }, "--rate and --speedup"},
		"negative rate":       {"", func(o *Options) { o.Rate = -1 }, "--rate"},
		"no topic":            {"", func(o *Options) { o.Topic = "" }, "--topic"},
		"partitions":          {"", func(o *Options) { o.Partitions = 0 }, "--partitions"},
		"limit":               {"", func(o *Options) { o.Limit = -1 }, "--limit"},
		"order":               {"", func(o *Options) { o.Order = "up" }, "--order"},
		"no broker":           {"", func(o *Options) { o.BootstrapServers = nil }, "--bootstrap-servers"},
		"no file":             {"", func(o *Options) { o.Path += "x" }, "no such file"},
		"format":              {"", func(o *Options) { o.Format = "avro" }, "--format"},
		"all lines bad":       {"x\ny\n", func(o *Options) {}, "2 lines skipped"},
		"times for the order": {"1\t2\t3\n", func(o *Options) { o.Order = dataset.TimeOrder }, "--order time"},
		"times for speedup":   {"1\t2\t3\n", func(o *Options) { o.Speedup = 1 }, "--speedup"},
		"times for stamps":    {"1\t2\t3\n", func(o *Options) { o.EventTime = true }, "--record-time event"},
	} {
		o := options(t, c, test.text)
		test.change(&o)
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

func TestPacer(t *testing.T) {
	byRate := newPacer(200, 0)
	byTime := newPacer(0, 10)
	byTime.first = 1000
	for _, test := range []struct {
		got, want time.Duration
	}{
		{byRate.due(0, 5), 0}, {byRate.due(100, 5), 500 * time.Millisecond},
		{byTime.due(7, 1000), 0}, {byTime.due(8, 3000), 200 * time.Millisecond}, {byTime.due(9, 500), 0},
		{newPacer(0, 0).due(10, 10), 0},
	} {
		if test.got != test.want {
			t.Errorf("due after %v, want %v", test.got, test.want)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	c := startBroker(b)
	o := options(b, c, ratingLines(100_000))
	for b.Loop() {
		summary, err := Run(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(summary.Acknowledged)/float64(summary.Seconds), "records/s")
	}
}
