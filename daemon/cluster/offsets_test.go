package cluster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/liar"
)

// TestOffsetsThatAreNot asks by franz-go through a network that lies about the start or the end of a log, in one
// answer or in all of a connection.
func TestOffsetsThatAreNot(t *testing.T) {
	t.Parallel()
	const topic, batches, end = "t", 20, 200
	first := func(_, answer int) bool { return answer == 1 }
	second := func(_, answer int) bool { return answer == 2 }
	oneOf := func(conn, _ int) bool { return conn == 1 }
	for name, c := range map[string]struct {
		when, lie int64
		lies      func(conn, answer int) bool
		refused   bool
	}{
		"a low end first":           {when: -1, lie: 20, lies: first},
		"a low end second":          {when: -1, lie: 20, lies: second, refused: true},
		"a high end first":          {when: -1, lie: 1 << 40, lies: first, refused: true},
		"a high end second":         {when: -1, lie: 1 << 40, lies: second, refused: true},
		"a connection that lies":    {when: -1, lie: 20, lies: oneOf},
		"a high start first":        {when: -2, lie: 100, lies: first, refused: true},
		"a high start second":       {when: -2, lie: 100, lies: second, refused: true},
		"a start of a connection":   {when: -2, lie: 100, lies: oneOf, refused: true},
		"a log that is appended to": {when: -1, lie: end - 10, lies: first},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			on, answers, lies := false, 0, 0
			network := &liar.Network{Offsets: func(conn int, when int64, p *kmsg.ListOffsetsResponseTopicPartition) {
				mu.Lock()
				defer mu.Unlock()
				if !on || when != c.when {
					return
				}
				if answers++; c.lies(conn, answers) {
					lies++
					p.Offset = c.lie
				}
			}}
			var refused []string
			client := reader(
				t,
				topic,
				batches,
				&config.Kafka{Refused: func(topic string, partition int32, reason string) {
					mu.Lock()
					defer mu.Unlock()
					refused = append(refused, topic+": "+reason)
				}},
				kfake.ListenFn(network.Listen),
			)
			mu.Lock()
			on = true
			mu.Unlock()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ask, want := kadm.NewClient(client).ListEndOffsets, int64(end)
			if c.when == -2 {
				ask, want = kadm.NewClient(client).ListStartOffsets, 0
			}
			found, err := ask(ctx, topic)
			if err != nil {
				t.Fatal(err)
			}
			at, _ := found.Lookup(topic, 0)
			mu.Lock()
			defer mu.Unlock()
			if at.Err != nil || at.Offset != want || lies == 0 || (len(refused) > 0) != c.refused {
				t.Errorf("offset %d, %v after %d lies in %d answers, refused %q; want %d", at.Offset, at.Err, lies,
					answers, refused, want)
			}
			if c.refused && !slices.ContainsFunc(refused, func(s string) bool {
				return strings.HasPrefix(s, "t: three answers about the start or the end of the log are [")
			}) {
				t.Errorf("refused %q", refused)
			}
		})
	}
}

// TestLogStartOfAReset: a reader that begins at the start of a log reads all of it, though one answer has a higher
// start.
func TestLogStartOfAReset(t *testing.T) {
	t.Parallel()
	const topic, batches = "t", 20
	var mu sync.Mutex
	on, lies := false, 0
	network := &liar.Network{Offsets: func(_ int, when int64, p *kmsg.ListOffsetsResponseTopicPartition) {
		mu.Lock()
		defer mu.Unlock()
		if on && when == -2 && lies == 0 {
			lies++
			p.Offset = 100
		}
	}}
	kafka := &config.Kafka{}
	reader(t, topic, batches, kafka, kfake.ListenFn(network.Listen))
	mu.Lock()
	on = true
	mu.Unlock()
	options, err := ClientOptions(kafka)
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n := 0
	for last := int64(-1); last < 10*batches-1 && ctx.Err() == nil; {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { last, n = r.Offset, n+1 })
	}
	if n != 10*batches || lies != 1 {
		t.Errorf("%d records after %d lies, want %d", n, lies, 10*batches)
	}
}
