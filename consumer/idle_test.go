package consumer

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestIdleTopic (C25, shortened): nothing to read is waited for: no connection is made anew, the watchdog stays quiet,
// the broker is asked about as often as its longest wait allows, and the reader stays ready with a lag of 0.
func TestIdleTopic(t *testing.T) {
	t.Parallel()
	const topic, quiet, wait = "t", 3 * time.Second, 100 * time.Millisecond
	l := new(line)
	cluster := newCluster(t, kfake.ListenFn(l.listen), kfake.SeedTopics(4, topic))
	cl := newProducer(t, cluster.ListenAddrs())
	produce(t, cl, topic, 0, numbers(0, 100)...)
	cl.Close()
	r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic},
		func(o *Options) { o.MaxWait, o.StallTimeout = wait, time.Second })
	idle := func() bool {
		s := r.Status()
		if len(s.Partitions) != 4 {
			return false
		}
		for _, p := range s.Partitions {
			if p.Lag != 0 {
				return false
			}
		}
		return s.Ready
	}
	await(t, "all records", func() bool { return r.total() == 100 && idle() })
	connections, fetches, began := l.accepted.Load(), r.metric(t, "refitd_consumer_fetches_total"), time.Now()
	await(t, "a while", func() bool {
		if !idle() {
			t.Fatalf("not ready with an idle topic: %v", r.reasons())
		}
		return time.Since(began) > quiet
	})
	made, asked := l.accepted.Load()-connections, r.metric(t, "refitd_consumer_fetches_total")-fetches
	if most := 3 * time.Since(began).Seconds() / wait.Seconds(); made > 0 || asked == 0 || asked > most ||
		r.metric(t, "refitd_consumer_stalls_total") > 0 {
		t.Errorf("%d connections and %g fetches (at most %g) in %v, %g stalls", made, asked, most, time.Since(began),
			r.metric(t, "refitd_consumer_stalls_total"))
	}
}

// TestBrokerVersions (C30): brokers that speak only what a release of Kafka did are read, from the first one with
// record batches on. What a broker says that is older is among the codes of TestCodesThatStay.
func TestBrokerVersions(t *testing.T) {
	for name, versions := range map[string]*kversion.Versions{"0.11": kversion.V0_11_0(), "1.0": kversion.V1_0_0(),
		"2.0": kversion.V2_0_0(),
		"2.8": kversion.V2_8_0(), "3.0": kversion.V3_0_0(), "3.9": kversion.V3_9_0(), "4.0": kversion.V4_0_0()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const topic = "t"
			cluster := newCluster(t, kfake.SeedTopics(2, topic), kfake.MaxVersions(versions))
			cl := newProducer(t, cluster.ListenAddrs())
			produce(t, cl, topic, 0, numbers(0, 100)...)
			cl.Close()
			r := start(t, newMemory(), cluster.ListenAddrs(), []string{topic}, nil)
			await(t, "all records", func() bool { return r.total() == 100 && r.Status().Ready })
			equalValues(t, r.memory, tp(topic, 0), numbers(0, 100))
		})
	}
}
