package daemon_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/report"
)

// TestRecreatedTopic deletes the topic of a state and makes it anew with more records than were read: every partition halts, a restart
// halts again, and nothing of the new topic is in the state.
func TestRecreatedTopic(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.produceRatings(31, 400)
	path := b.configure("recreated")
	before := b.run(path)
	if before.err != nil {
		t.Fatal(before.err)
	}
	admin := kadm.NewClient(b.kafka)
	if _, err := admin.DeleteTopic(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 4, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	b.kafka = cl
	b.produceRatings(32, 4000)
	for range 2 {
		after := b.run(path)
		if report.CodeOf(after.err) != report.ExitHalted || after.count("halt") != 4 {
			t.Fatalf("%v, %d halts", after.err, after.count("halt"))
		}
		state, want := after.state(t), before.state(t)
		for i := range state.Partitions {
			p := &state.Partitions[i]
			if p.Halted == nil || !strings.Contains(*p.Halted, "fingerprint mismatch") {
				t.Errorf("%s/%d is not halted by its fingerprint: %v", p.Topic, p.Partition, p.Halted)
			}
			p.Halted = nil
		}
		if !reflect.DeepEqual(state, want) {
			t.Errorf("the state changed:\n%+v\n%+v", state, want)
		}
	}
}
