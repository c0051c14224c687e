package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// one returns the only partition of a state's topic.
func one(t *testing.T, s report.State, topic string) report.PartitionState {
	t.Helper()
	for _, p := range s.Partitions {
		if p.Topic == topic && p.Partition == 0 {
			return p
		}
	}
	t.Fatalf("the state has no %s/0: %+v", topic, s)
	return report.PartitionState{}
}

// haltedWith wants a halt of partition 0 at an offset, with a text that names the cause.
func haltedWith(t *testing.T, c *child, limit time.Duration, topic string, offset int64, text string) {
	t.Helper()
	h := c.halted(limit)
	if h.Topic != topic || h.Partition != 0 || h.Offset != offset || !strings.Contains(h.Reason, text) {
		t.Fatalf("halt %+v, want %s/0 at %d with %q", h, topic, offset, text)
	}
}

// TestRetentionPassed (C9): records that were deleted before they were read halt the partition; nothing is applied from
// behind the gap until the operator accepts it, and then the ledger declares exactly so many offsets.
func TestRetentionPassed(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	a := admin(t, k.addr())
	makeTopic(t, a, "retention", 1, 1)
	p := newProducer(t, k.addr(), "retention")
	p.fill(300, ratings(1, 0))
	s := settings{brokers: k.addr(), topics: []string{"retention"}}
	config := configure(t, "retention", s)
	if code, c := toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	p.fill(200, ratings(2, 0))
	cutLog(t, a, "retention", 0, 350)
	code, c := toTheEnd(t, config, time.Minute)
	if code != report.ExitHalted {
		t.Fatalf("exit code %d, %+v", code, c.failure)
	}
	haltedWith(t, c, time.Second, "retention", 300, "gap of 50 offsets")
	if l := one(t, inspect(t, config), "retention"); l.Next != 300 || l.Gap != 0 || l.Halted == nil {
		t.Fatalf("halted at %+v", l)
	}

	acceptGap(t, config, "retention", 300, 350)
	if code, c = toTheEnd(t, config, time.Minute); code != report.ExitDone {
		t.Fatalf("after the gap was accepted: exit code %d, %+v", code, c.failure)
	}
	l := one(t, inspect(t, config), "retention")
	if l.Gap != 50 || l.Applied != 450 || l.Next != 500 {
		t.Fatalf("after the gap was accepted: %+v", l)
	}
	declared(t, config, 50)
}

// acceptGap is the operator's decision about a halted partition.
func acceptGap(t *testing.T, config, topic string, from, to int64) {
	t.Helper()
	if _, code := command(t, "state", "accept-gap", "--config.file", config, "--topic", topic, "--partition", "0",
		"--json"); code != 0 {
		t.Fatalf("accept-gap of %s/0 from %d to %d: exit code %d", topic, from, to, code)
	}
}

// declared runs verify over a state with a gap: what Kafka no longer holds cannot be proved and is not called ok, but
// nothing that can be read again may be lost or double.
func declared(t *testing.T, config string, gap int64) {
	t.Helper()
	p := verify(t, config)
	if p.summary.Gap != gap || p.summary.Lost != 0 || p.summary.Double != 0 {
		t.Errorf("verify: %+v %+v %+v, want a gap of %d and nothing lost", p.summary, p.partitions, p.failure, gap)
	}
	for _, l := range p.partitions {
		if l.Digest == "mismatch" {
			t.Errorf("verify: mismatch in %+v", l)
		}
	}
}

// TestRetentionOvertakes (C10): retention deletes segments that a stopped daemon is about to read. With on_gap: halt it
// halts, with on_gap: record it declares the gap and reads on; both say exactly which offsets are gone.
func TestRetentionOvertakes(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	a := admin(t, k.addr())
	for _, policy := range []string{"halt", "record"} {
		t.Run(policy, func(t *testing.T) {
			topic := "overtakes-" + policy
			makeTopic(t, a, topic, 1, 1, "internal.segment.bytes", "20000", "retention.bytes", "40000", "segment.ms",
				"500")
			p := newProducer(t, k.addr(), topic, kgo.ProducerBatchMaxBytes(4000), kgo.ProducerLinger(0))
			p.fill(100, ratings(1, 0))
			config := configure(t, policy,
				settings{brokers: k.addr(), topics: []string{topic}, input: "on_gap: " + policy})
			d := run(t, refitd, config, nil)
			d.ready(20 * time.Second)
			d.caughtUp(10*time.Second, topic, p.ends())
			frozen(t, d, func() {
				p.fill(5000, ratings(2, 100))
				within(t, 30*time.Second, func() error { // until the cleaner has passed the daemon
					starts, err := a.ListStartOffsets(t.Context(), topic)
					if err != nil {
						return err
					}
					if o, ok := starts.Lookup(topic, 0); !ok || o.Offset <= 1000 {
						return fmt.Errorf("the log starts at %d", o.Offset)
					}
					return nil
				})
			})
			if policy == "halt" {
				h := d.halted(20 * time.Second) // an answer that was on its way may still have been applied
				if h.Topic != topic || h.Offset < 100 || h.Offset > 1000 || !strings.Contains(h.Reason, "gap of") {
					t.Fatalf("halt %+v", h)
				}
				d.oneHalted()
				if code, _ := d.stop(); code != report.ExitHalted {
					t.Errorf("exit code %d", code)
				}
				if l := one(t, inspect(t, config), topic); l.Next != h.Offset || l.Applied != h.Offset || l.Gap != 0 {
					t.Errorf("halted at %+v", l)
				}
				return
			}
			d.caughtUp(20*time.Second, topic, p.ends())
			s := d.stopClean()
			l := one(t, s, topic)
			if l.Gap <= 900 || l.Applied != l.Next-l.Gap {
				t.Errorf("%+v", l)
			}
			balanced(t, s)
			declared(t, config, l.Gap)
		})
	}
}

// TestTopicMadeAnewShorter (C12): the topic is deleted and made again with fewer records than were applied: its
// partition halts, and the other topic continues.
func TestTopicMadeAnewShorter(t *testing.T) { madeAnew(t, "shorter", 100, "position 500") }

// TestTopicMadeAnewLonger (C13): the new topic has more records than were applied from the old one: only the contents
// of the records distinguish the two. Nothing is applied from the new topic.
func TestTopicMadeAnewLonger(t *testing.T) { madeAnew(t, "longer", 900, "") }

func madeAnew(t *testing.T, name string, records int, text string) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	a := admin(t, k.addr())
	for _, running := range []bool{true, false} { // the topic changes under a running daemon, and between two runs
		t.Run(fmt.Sprintf("running=%v", running), func(t *testing.T) {
			topic := fmt.Sprintf("%s-%v", name, running)
			other := topic + "-other"
			makeTopic(t, a, topic, 1, 1)
			makeTopic(t, a, other, 1, 1)
			p, calm := newProducer(t, k.addr(), topic), newProducer(t, k.addr(), other)
			p.fill(500, ratings(1, 0))
			calm.fill(50, ratings(2, 0))
			config := configure(t, name, settings{brokers: k.addr(), topics: []string{topic, other}})
			d := run(t, refitd, config, nil)
			d.ready(20 * time.Second)
			d.caughtUp(10*time.Second, topic, p.ends())
			if !running {
				d.stopClean()
			}
			if _, err := a.DeleteTopic(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
			makeTopic(t, a, topic, 1, 1)
			newProducer(t, k.addr(), topic).fill(records, ratings(3, 0))
			if !running {
				d = run(t, refitd, config, nil)
			}
			haltedWith(t, d, 10*time.Second, topic, 500, text)
			calm.fill(50, ratings(4, 0))
			d.caughtUp(10*time.Second, other, calm.ends())
			if code, _ := d.stop(); code != report.ExitHalted {
				t.Errorf("exit code %d", code)
			}
			if l := one(t, inspect(t, config), topic); l.Next != 500 || l.Applied != 500 || l.Halted == nil {
				t.Errorf("the state of the topic that is gone: %+v, its position was 500", l)
			}
		})
	}
}

// TestPartitionsRaised (C14): partitions that are added while the daemon runs are read from offset 0 and found within
// 60 s.
func TestPartitionsRaised(t *testing.T) {
	tier.Need(t, tier.Broker)
	k := sharedKafka(t)
	a := admin(t, k.addr())
	makeTopic(t, a, "raised", 4, 1)
	p := newProducer(t, k.addr(), "raised", kgo.MetadataMinAge(50*time.Millisecond),
		kgo.MetadataMaxAge(100*time.Millisecond))
	config := configure(t, "raised", settings{brokers: k.addr(), topics: []string{"raised"}, input: ""})
	d := run(t, refitd, config, nil)
	d.ready(20 * time.Second)
	p.load(2000, ratings(1, 0))
	pause(t, time.Second)
	if _, err := a.UpdatePartitions(t.Context(), 8, "raised"); err != nil {
		t.Fatal(err)
	}
	raised := time.Now()
	within(t, 60*time.Second, func() error {
		_, body, err := d.get("/metrics")
		if err == nil && position(body, "raised", 7) == 0 {
			err = fmt.Errorf("nothing of the new partitions is applied; acknowledged up to %v", p.ends())
		}
		return err
	})
	t.Logf("new partitions are read after %v (of 60s)", time.Since(raised).Round(time.Millisecond))
	p.stop()
	d.caughtUp(30*time.Second, "raised", p.ends())
	s := d.stopClean()
	p.accountedFor(s)
	for _, l := range s.Partitions {
		if l.Start != 0 {
			t.Errorf("partition %d was read from offset %d", l.Partition, l.Start)
		}
	}
	if len(s.Partitions) != 8 {
		t.Errorf("%d partitions", len(s.Partitions))
	}
	proved(t, config)
}
