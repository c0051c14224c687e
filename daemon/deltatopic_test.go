package daemon_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/kafkasource"
	"github.com/twmb/franz-go/pkg/kgo"
)

// noDeltas hides that a store has deltas, so that they come from the topic alone.
type noDeltas struct{ snapshot.Source }

// TestDeltaTopic: a daemon with publish.deltas.topic puts what its store has of the champion's chain there, and a
// watcher of the topics has it.
func TestDeltaTopic(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(41, 2000)
	d, stop := b.Start(b.Configure("wire", append([]string{"every_events: 0", "every_events: 1500",
		"update_every: 0s", "update_every: 1s, topic: champions, deltas: {every: 50ms, topic: deltas}"},
		daemontest.Simple...)...))
	defer stop()
	dir := filepath.Join(b.Dir, "store-wire")
	daemontest.Within(t, daemontest.Patience, "a version", func() bool {
		_, err := snapshot.Open(dir, "ratings", snapshot.Selector{Alias: pointer.Champion})
		return err == nil
	})
	source, err := kafkasource.NewSource([]kgo.Opt{kgo.SeedBrokers(b.Addr)}, "champions",
		noDeltas{snapshot.DirSource{Dir: dir}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	source.ReadDeltas("deltas")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		source.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	w, err := snapshot.Watch(source, snapshot.WatchOptions{Model: "ratings"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var at snapshot.Position
	seed := uint64(50)
	daemontest.Within(t, daemontest.Patience, "the deltas of an update", func() bool {
		seed++
		b.ProduceRatings(seed, 20)
		at = w.Status().Position
		return at.Sequence >= 3
	})
	var over struct{ Delta int64 }
	daemontest.Within(t, daemontest.Patience, "a delta in what scores over HTTP", func() bool {
		seed++
		b.ProduceRatings(seed, 20)
		_, body := daemontest.Get(t, "http://"+d.Addr()+"/v1/models/ratings")
		return json.Unmarshal([]byte(body), &over) == nil && over.Delta > 0
	})
	stream, err := snapshot.DirSource{Dir: dir}.Deltas(t.Context(), "ratings", at.Version, at.Sequence-1)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	frame, err := format.ReadFrame(stream)
	if err != nil {
		t.Fatal(err)
	}
	if delta, err := format.DecodeDeltaHeader(frame, nil); err != nil || delta.Digest != at.Digest {
		t.Errorf("the consumer of the topic was at %+v, the store has %+v, %v", at, delta, err)
	}
	daemontest.Within(t, daemontest.Patience, "the count", func() bool {
		_, metrics := daemontest.Get(t, "http://"+d.Addr()+"/metrics")
		return daemontest.Sum(t, metrics, "refitd_delta_announcements_total") > 0
	})
}
