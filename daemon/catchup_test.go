package daemon_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/consumer"
)

// backlog starts a broker in a child process and writes n ratings of about 100 bytes to 8 partitions.
func backlog(t *testing.T, n int) (addr string) {
	t.Helper()
	addr = brokerProcess(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(daemontest.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(10*time.Millisecond), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		value := fmt.Appendf(nil,
			`{"user":"user-%06d","item":"item-%05d","rating":%d,"ts":%d,"source":"web","page":"start"}`,
			int(60000*r.Float64()*r.Float64()), int(9000*r.Float64()*r.Float64()), 1+r.IntN(5), 1700000000000+int64(i))
		cl.Produce(t.Context(), &kgo.Record{Partition: int32(i % 8), Value: value}, nil)
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return addr
}

// emptySink takes what comes and keeps nothing.
type emptySink struct{ records int }

func (s *emptySink) Apply(_ context.Context, b *consumer.Batch) error {
	s.records += len(b.Records)
	return nil
}

// bareRate reads the topic to its end and does nothing with it, in records a second.
func bareRate(t *testing.T, addr string, n int) float64 {
	t.Helper()
	o := consumer.DefaultOptions()
	o.Brokers, o.Topics, o.Logger, o.Registerer = []string{
		addr,
	}, []string{
		daemontest.Topic,
	}, daemontest.Quiet(), prometheus.NewRegistry()
	var sink emptySink
	c, err := consumer.New(o, &sink)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := c.Ends(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := c.RunUntil(t.Context(), ends); err != nil || sink.records != n {
		t.Fatalf("%d of %d records, %v", sink.records, n, err)
	}
	return float64(n) / time.Since(began).Seconds()
}

// TestCatchUp measures how fast a backlog is worked off with everything on: decoding, scoring, fold-in, holding out,
// digests, durable transactions. The figures are for a machine that does nothing else, so the test asks only for a
// share of what fetching alone does in the same run.
func TestCatchUp(t *testing.T) {
	tier.Need(t, tier.Load)
	n := tier.Size(20_000, 300_000)
	b := &daemontest.Bench{T: t, Dir: t.TempDir(), Addr: backlog(t, n)}
	bareRate(t, b.Addr, n) // files into memory
	bare := bareRate(t, b.Addr, n)
	t.Logf("%-28s %9.0f records/s", "fetch alone", bare)
	const size = "size: 20000"
	for _, c := range []struct {
		name  string
		floor float64 // of the share of fetching alone; a tenth of what an idle machine of two cores does
		edit  []string
	}{
		{"full uniform sample", 0.005, []string{size, "size: 10000"}},
		{"while the sample fills", 0.003, []string{size, "size: " + strconv.Itoa(2*n)}},
		{"full sample with decay", 0.003, []string{size, "size: 10000, half_life: 1h"}},
	} {
		path := b.Configure(
			strings.ReplaceAll(c.name, " ", "-"),
			append([]string{"max_basis: 4", "max_basis: 1", "every_events: 0",
				"every_events: 0, time_budget: 1s"}, c.edit...)...)
		o := b.Run(path)
		// whether the refit gets to an end within its budget is not what is measured
		if code := report.CodeOf(o.Err); code > report.ExitNo {
			t.Fatalf("%s: %v", c.name, o.Err)
		}
		applied := int64(0)
		for _, p := range o.State(t).Partitions {
			applied += p.Applied
		}
		rate := float64(o.Summary.EventsPerSecond)
		t.Logf("%-28s %9.0f events/s, %.3f of fetching alone", c.name, rate, rate/bare)
		if applied != int64(n) || rate < c.floor*bare {
			t.Errorf("%s: %d of %d events, %.4f of fetching alone, want %g", c.name, applied, n, rate/bare, c.floor)
		}
	}
}
