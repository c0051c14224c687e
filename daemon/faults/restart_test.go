package faults_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestBrokerRestarts (C2): the broker is killed and started again under load. Each time the daemon is ready and reads
// on within 15 s.
func TestBrokerRestarts(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	makeTopic(t, admin(t, k.addr()), "restarts", 4, 1)
	p := newProducer(t, k.addr(), "restarts")
	config := configure(t, "restarts", settings{brokers: k.addr(), topics: []string{"restarts"}})
	d := run(t, refitd, config, nil)
	p.load(tier.Size(5000, 5000), ratings(1, 0))
	d.ready(30 * time.Second)
	var waits []time.Duration
	for range tier.Size(3, 20) {
		pause(t, time.Second)
		k.restart(t, nil)
		up := time.Now()
		at := p.ends()
		d.caughtUp(15*time.Second, "restarts", at)
		d.ready(15 * time.Second)
		waits = append(waits, time.Since(up))
	}
	p.stop()
	d.caughtUp(30*time.Second, "restarts", p.ends())
	p.accountedFor(d.stopClean())
	proved(t, config)
	t.Logf(
		"%d restarts of the broker under load, %d records: caught up again after %v at the median, %v at most (of 15s)",
		len(waits), p.total(), percentile(waits, 50), slices.Max(waits))
}

// TestLeaderMoves (C6): of three brokers, the leader of a partition is killed with kill -9 under load, then comes back.
func TestLeaderMoves(t *testing.T) {
	tier.Need(t, tier.Broker)
	needKafka(t)
	k, err := makeKafka(t.TempDir(), 3, "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.stop)
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	a := admin(t, k.addr())
	makeTopic(t, a, "moves", 6, 3)
	p := newProducer(t, k.addr(), "moves", kgo.MetadataMinAge(100*time.Millisecond))
	config := configure(t, "moves", settings{brokers: k.addr(), topics: []string{"moves"}})
	d := run(t, refitd, config, nil)
	p.load(tier.Size(2000, 5000), ratings(1, 0))
	d.ready(30 * time.Second)
	for range tier.Size(1, 5) {
		pause(t, 2*time.Second)
		leader := leaderOf(t, a, "moves", 0)
		k.nodes[leader-1].kill()
		killed := time.Now()
		// Another broker leads within the session time-out, and the daemon follows.
		within(t, 30*time.Second, func() error {
			if now := leaderOf(t, a, "moves", 0); now == leader || now < 0 {
				return fmt.Errorf("broker %d still leads", now)
			}
			return nil
		})
		moved := time.Since(killed)
		d.caughtUp(15*time.Second, "moves", p.ends())
		d.ready(15 * time.Second)
		t.Logf("killed broker %d: another leads after %v, caught up after %v", leader, moved, time.Since(killed))
		if err := k.start(); err != nil {
			t.Fatal(err)
		}
	}
	// Leadership moves back without a crash, too.
	before := leaderOf(t, a, "moves", 0)
	if _, err := a.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, nil); err != nil {
		t.Fatal(err)
	}
	pause(t, time.Second)
	t.Logf("leader of partition 0: %d, after the election of preferred ones %d", before, leaderOf(t, a, "moves", 0))
	p.stop()
	d.caughtUp(30*time.Second, "moves", p.ends())
	p.accountedFor(d.stopClean())
	proved(t, config)
}

func leaderOf(t *testing.T, a *kadm.Client, topic string, partition int32) int {
	t.Helper()
	leader := -1
	within(t, 20*time.Second, func() error {
		meta, err := a.Metadata(t.Context(), topic)
		if err != nil {
			return err
		}
		leader = int(meta.Topics[topic].Partitions[partition].Leader)
		return nil
	})
	return leader
}

// percentile returns the value below which q percent of the values lie.
func percentile(values []time.Duration, q int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, len(sorted)*q/100)].Round(time.Millisecond)
}
