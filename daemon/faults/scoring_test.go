package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// TestKilledWhileScoring (C32): a daemon that scores into a topic is killed with kill -9 at random times, one in five
// of them before it has answered anything: each offset of the events has exactly one committed answer, in order.
func TestKilledWhileScoring(t *testing.T) {
	tier.Need(t, tier.Kills)
	killedWhileScoring(t, embedded(t), tier.Size(15, 300), 2000)
}

// TestKilledWhileScoringToKafka (C32) is TestKilledWhileScoring with a real broker.
func TestKilledWhileScoringToKafka(t *testing.T) {
	tier.Need(t, tier.Broker)
	killedWhileScoring(t, sharedKafka(t).addr(), tier.Size(15, 300), 2000)
}

func killedWhileScoring(t *testing.T, addr []string, kills, rate int) {
	const partitions = 4
	events, scores := "scoring-events", "scoring-answers"
	a := admin(t, addr)
	makeTopic(t, a, events, partitions, 1)
	p := newProducer(t, addr, events)
	config := configure(
		t,
		"scoring",
		settings{brokers: addr, topics: []string{events}, size: 20_000, train: trainOften, publish: publishOften,
			score: fmt.Sprintf("topic: %s, transactions: required", scores)},
	)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	good := ratings(seed, 0)
	p.load(rate, func(i int) []byte {
		if i%50 == 49 {
			return []byte("no event")
		}
		return good(i)
	})
	answered := func(c *child, limit time.Duration) time.Duration {
		within(t, limit, func() error {
			if n, err := c.metric("refitd_score_records_total"); err != nil || n == 0 {
				return fmt.Errorf("%g offsets answered, %v", n, err)
			}
			return nil
		})
		return time.Since(c.began)
	}
	began := time.Now()
	var waits []time.Duration
	for i := range kills {
		trainAnyway(t, config)
		c := run(t, refitd, config, nil)
		if i%5 == 4 {
			pause(t, time.Duration(r.Int64N(int64(time.Second))))
		} else {
			waits = append(waits, answered(c, time.Minute))
			pause(t, time.Duration(r.Int64N(int64(400*time.Millisecond))))
		}
		c.kill()
	}
	took := time.Since(began)
	p.stop()
	end := ends(t, a, events)
	total := int64(0)
	for _, n := range end {
		total += n
	}
	trainAnyway(t, config)
	c := run(t, refitd, config, nil)
	within(t, 5*time.Minute, func() error {
		answered(c, time.Minute)
		if n, err := c.metric("refitd_score_lag_records"); err != nil || n > 0 {
			return fmt.Errorf("%g offsets to answer, %w", n, err)
		}
		return nil
	})
	c.stopClean()

	committed := readAnswers(t, addr, a, scores, kgo.ReadCommitted())
	for i := range partitions {
		p := int32(i)
		if offsets, want := committed.offsets[p], end[p]; int64(len(offsets)) != want {
			t.Errorf("partition %d: %d answers to %d offsets", p, len(offsets), want)
		}
		for at, offset := range committed.offsets[p] {
			if offset != int64(at) {
				t.Fatalf("partition %d: answer %d is to offset %d", p, at, offset)
			}
		}
	}
	if want := total / 50; committed.rejected < want-2 || committed.rejected > want+2 {
		t.Errorf("%d answers are of no events, about %d were sent", committed.rejected, want)
	}
	aborted := readAnswers(t, addr, a, scores, kgo.ReadUncommitted()).total() - committed.total()
	t.Logf(
		"%d kills in %v at %d events/s, %d offsets, each answered once by %d versions, %d answers of transactions that "+
			"were aborted; "+
			"first answer after p50 %v p99 %v max %v",
		kills,
		took.Round(time.Second),
		rate,
		total,
		len(committed.versions),
		aborted,
		percentile(waits, 50),
		percentile(waits, 99),
		slices.Max(waits).Round(time.Millisecond),
	)
	if aborted == 0 {
		t.Log("no kill fell into a transaction")
	}
}

// answers are those of a topic of scores: the offsets answered by partition, in the order of the answers.
type answers struct {
	offsets  map[int32][]int64
	versions map[int64]bool
	rejected int64
}

func (a *answers) total() (n int) {
	for _, offsets := range a.offsets {
		n += len(offsets)
	}
	return n
}

// readAnswers reads a topic of scores up to its end.
func readAnswers(t *testing.T, addr []string, a *kadm.Client, topic string, isolation kgo.IsolationLevel) *answers {
	t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(addr...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	left := ends(t, a, topic)
	for p, end := range left {
		if end == 0 {
			delete(left, p)
		}
	}
	out := &answers{offsets: map[int32][]int64{}, versions: map[int64]bool{}}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			var answer struct {
				Partition int32
				Offset    int64
				Version   int64
				Error     *struct{ Reason string }
			}
			if err := json.Unmarshal(r.Value, &answer); err != nil || answer.Partition != r.Partition ||
				answer.Version < 1 {
				t.Fatalf("answer %s in partition %d: %v", r.Value, r.Partition, err)
			}
			out.offsets[r.Partition] = append(out.offsets[r.Partition], answer.Offset)
			out.versions[answer.Version] = true
			if answer.Error != nil {
				out.rejected++
			}
		})
	}
	return out
}
