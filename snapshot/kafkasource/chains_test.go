package kafkasource

import (
	"io"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestLineages: a delta that is sent again under the key of another lineage is held once, and is still there after that
// of the lineage before was taken back.
func TestLineages(t *testing.T) {
	dir := t.TempDir()
	store := publish.NewStore(dir)
	_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small))
	snapshottest.Must(t, err)
	m, err := snapshot.Open(dir, "m", snapshot.Selector{Alias: pointer.Latest})
	snapshottest.Must(t, err)
	frame, _, err := snapshottest.DeltaAfter(m, 0, nil)
	snapshottest.Must(t, err)
	s := &Source{chains: newChains(), log: slog.New(slog.DiscardHandler)}
	take := func(key string, value []byte) { s.takeDelta(&kgo.Record{Key: []byte(key), Value: value}) }
	take("m/before/1/1", frame)
	take("m/now/1/1", frame)
	if s.chains.bytes != int64(len(frame)) || len(s.chains.keys) != 1 {
		t.Errorf("%d bytes of %d keys are held, want one frame of %d", s.chains.bytes, len(s.chains.keys), len(frame))
	}
	take("m/before/1/1", nil)
	stream, _ := s.chains.after(chainKey{"m", 1}, 0)
	if stream == nil {
		t.Fatal("the delta was taken back with that of the lineage before")
	}
	if b, err := io.ReadAll(stream); err != nil || string(b) != string(frame) {
		t.Errorf("%d bytes, %v, want the frame", len(b), err)
	}
	if take("m/now/1/1", nil); s.chains.bytes != 0 || len(s.chains.frames) != 0 || s.ignored != 0 {
		t.Errorf("%d bytes and %d chains are left, %d records ignored", s.chains.bytes, len(s.chains.frames), s.ignored)
	}
}
