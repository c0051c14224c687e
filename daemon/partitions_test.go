package daemon_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// J10: topics of 600 partitions with the longest names: versions are published, announced with their files, served and
// gone on from, and neither the manifest nor any line of the log grows with the partitions.
func TestManyPartitions(t *testing.T) { // in parallel with no other test: the embedded broker is slow with so many
	b := daemontest.New(t)
	topics := []string{daemontest.Topic}
	for i := range 2 {
		topics = append(topics, fmt.Sprintf("%s%d", strings.Repeat("t", 248), i))
		if err := b.Broker.CreateTopic(t.Context(), topics[i+1], 300, 0); err != nil {
			t.Fatal(err)
		}
	}
	path := b.Configure("many", append([]string{"topics: [ratings]", "topics: [" + strings.Join(topics, ", ") + "]",
		"publish: {", "publish: {topic: champions, inline_max: 1MiB, "}, daemontest.Simple...)...)
	b.ProduceRatings(1, 1000)
	for _, topic := range topics[1:] {
		b.ProduceTo(topic, []byte(`{"user":"u1","item":"i1","rating":3,"ts":1700000000000}`))
	}
	if first := b.Run(path); first.Err != nil || first.Summary.Models[0].VersionsPromoted != 1 {
		t.Fatalf("%+v, %v", first.Summary, first.Err)
	}
	dir := filepath.Join(b.Dir, "store-many")
	r := &refitting{t: t, b: b, path: path, dir: filepath.Join(dir, "ratings"), store: publish.NewStore(dir)}
	r.start()
	if p := r.publish(); p.Version != 2 {
		t.Errorf("second version %+v", p)
	}
	st, err := os.Stat(filepath.Join(r.dir, "2", "manifest.json"))
	if err != nil || st.Size() > 8<<10 {
		t.Errorf("manifest %+v, %v", st, err)
	}
	m, err := snapshot.Open(dir, "ratings", snapshot.Selector{Version: 2})
	if err != nil || len(m.Manifest().Cut) < 500 { // partitions without records may not have been begun
		t.Errorf("a cut of %d, %v", len(m.Manifest().Cut), err)
	}
	status, text := daemontest.Get(t, r.web+"/v1/models/ratings/versions/2/files/cut.json")
	var cut []format.Cut
	if err := json.Unmarshal([]byte(text), &cut); err != nil || status != 200 || len(cut) != len(m.Manifest().Cut) {
		t.Errorf("HTTP %d: a cut of %d, %v", status, len(cut), err)
	}
	if status, text := daemontest.Get(t, r.web+"/v1/models/ratings/versions/2"); status != 200 || len(text) > 8<<10 ||
		!strings.Contains(text, "cut_file") {
		t.Errorf("HTTP %d: %d bytes", status, len(text))
	}
	daemontest.Within(t, daemontest.Patience, "an announcement with its files", func() bool {
		return strings.Contains(r.log.String(), `"msg":"champion announced"`) &&
			strings.Contains(r.log.String(), `"inline":true`)
	})
	r.stop()
	for line := range strings.Lines(r.log.String()) {
		if len(line) > 4<<10 && strings.Contains(line, `"msg":`) && !strings.Contains(line, `"msg":"started"`) {
			t.Errorf("a line of %d bytes: %.300s", len(line), line)
		}
	}
	if strings.Contains(r.log.String(), `"level":"ERROR"`) {
		t.Error("the log has errors")
	}
}
