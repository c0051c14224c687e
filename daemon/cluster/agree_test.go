package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/daemontest/liar"
)

// setOffset alters the first partition of an answer about the offsets of a group, or about the end of an epoch.
func setOffset(r kmsg.Response, offset int64) bool {
	switch res := r.(type) {
	case *kmsg.OffsetFetchResponse:
		if len(res.Groups) == 1 && len(res.Groups[0].Topics) > 0 {
			res.Groups[0].Topics[0].Partitions[0].Offset = offset
			return true
		}
		if len(res.Topics) > 0 {
			res.Topics[0].Partitions[0].Offset = offset
			return true
		}
	case *kmsg.OffsetForLeaderEpochResponse:
		res.Topics[0].Partitions[0].EndOffset = offset
		return true
	}
	return false
}

// TestPlacesThatAreNot has a network that says in one answer, or in those of one connection, that a group, or an epoch
// of a log, ended elsewhere.
func TestPlacesThatAreNot(t *testing.T) {
	t.Parallel()
	const topic, batches, committed, end = "t", 20, 120, 200
	for name, c := range map[string]struct {
		kind kmsg.Key
		lie  int64
		lies func(conn, answer int) bool
	}{
		"a group further":                  {kmsg.OffsetFetch, 190, func(_, answer int) bool { return answer == 1 }},
		"a group behind":                   {kmsg.OffsetFetch, 30, func(_, answer int) bool { return answer == 1 }},
		"a group without offsets":          {kmsg.OffsetFetch, -1, func(_, answer int) bool { return answer == 1 }},
		"a group further, second":          {kmsg.OffsetFetch, 190, func(_, answer int) bool { return answer == 2 }},
		"a group without, of a connection": {kmsg.OffsetFetch, -1, func(conn, _ int) bool { return conn == 1 }},
		"an epoch that ended before":       {kmsg.OffsetForLeaderEpoch, 50, func(_, answer int) bool { return answer == 1 }},
		"the end of an epoch, second":      {kmsg.OffsetForLeaderEpoch, 50, func(_, answer int) bool { return answer == 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			on, answers, lies := false, 0, 0
			network := &liar.Network{Kinds: []kmsg.Key{c.kind}, Answer: func(conn int, _ kmsg.Request, r kmsg.Response) {
				mu.Lock()
				defer mu.Unlock()
				if !on {
					return
				}
				if answers++; c.lies(conn, answers) && setOffset(r, c.lie) {
					lies++
				}
			}}
			var refused []string
			client := reader(t, topic, batches, &config.Kafka{Refused: func(topic string, _ int32, reason string) {
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, topic+": "+reason)
			}}, kfake.ListenFn(network.Listen))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			admin := kadm.NewClient(client)
			var offsets kadm.Offsets
			offsets.AddOffset(topic, 0, committed, -1)
			if err := admin.CommitAllOffsets(ctx, "g", offsets); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			on = true
			mu.Unlock()
			var at, want int64
			if c.kind == kmsg.OffsetFetch {
				found, err := admin.FetchOffsetsForTopics(ctx, "g", topic)
				if err != nil {
					t.Fatal(err)
				}
				of, _ := found.Lookup(topic, 0)
				at, want = of.At, committed
			} else {
				found, err := admin.OffsetForLeaderEpoch(ctx, kadm.OffsetForLeaderEpochRequest{topic: {0: 0}})
				if err != nil {
					t.Fatal(err)
				}
				at, want = found[topic][0].EndOffset, end
			}
			mu.Lock()
			defer mu.Unlock()
			if at != want || lies == 0 {
				t.Errorf("offset %d after %d lies in %d answers, refused %q; want %d", at, lies, answers, refused, want)
			}
		})
	}
}

// TestListOffsetsOfBefore: the answer in the form of version 0, which nobody compares, ends the connection. A network
// can bring it about: it says what versions a broker knows.
func TestListOffsetsOfBefore(t *testing.T) {
	t.Parallel()
	if _, err := new(guard).settle(new(kmsg.ListOffsetsRequest), make([]byte, correlation+4)); !errors.Is(err, errRefused) {
		t.Errorf("%v, want that the answer is refused", err)
	}
}
