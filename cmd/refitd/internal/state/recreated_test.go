package state_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/cmd/refitd/internal/state"
	"github.com/refitd/refitd/daemon/report"
)

// TestRecreatedTopic deletes the topic of a state and makes it anew with more records than were read: every partition
// halts, a restart halts again, and nothing of the new topic is in the state. Once the operator has accepted it, all of
// it is, as another incarnation, and that is proved.
func TestRecreatedTopic(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	b.ProduceRatings(31, 400)
	path := b.Configure("recreated")
	before := b.Run(path)
	if before.Err != nil {
		t.Fatal(before.Err)
	}
	conf, model, dir := daemontest.Load(t, path)
	var said bytes.Buffer
	gap := state.Gap{
		Dir:       dir,
		Model:     model.Name,
		Topic:     daemontest.Topic,
		LogStarts: state.LogStarts(conf, model, daemontest.Quiet()),
		Why:       "made anew",
		Log:       daemontest.Quiet(),
	}
	if err := gap.AcceptRecreated(t.Context(), report.NewEmitter(&said, true)); report.CodeOf(err) != report.ExitNo {
		t.Fatalf("a topic that is the same: %v", err)
	}
	admin := kadm.NewClient(b.Kafka)
	if _, err := admin.DeleteTopic(t.Context(), daemontest.Topic); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 4, 1, nil, daemontest.Topic); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.DefaultProduceTopic(daemontest.Topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	b.Kafka = cl
	b.ProduceRatings(32, 4000)
	for range 2 {
		after := b.Run(path)
		if report.CodeOf(after.Err) != report.ExitHalted || after.Count("halt") != 4 {
			t.Fatalf("%v, %d halts", after.Err, after.Count("halt"))
		}
		state, want := after.State(t), before.State(t)
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
	if err := gap.AcceptRecreated(t.Context(), report.NewEmitter(&said, true)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(said.String(), `"type":"recreated","model":"ratings","topic":"ratings"`); n != 4 ||
		strings.Count(said.String(), `"incarnation":1,"start":0,`) != 4 {
		t.Errorf("said %s", &said)
	}
	if err := gap.AcceptRecreated(t.Context(), report.NewEmitter(&said, true)); report.CodeOf(err) != report.ExitNo {
		t.Errorf("accepted again: %v", err)
	}
	if d := decisions(t, dir); len(d) != 1 || d[0].Verb != "accept-gap" ||
		!strings.Contains(d[0].What, "made anew with 4 partitions") ||
		d[0].Why != "made anew" {
		t.Errorf("journal %+v", d)
	}
	accepted := b.Run(path)
	if accepted.Err != nil {
		t.Fatal(accepted.Err)
	}
	state := accepted.State(t)
	if n := daemontest.Balanced(t, state); n != 4000 || state.Rows.Train+state.Rows.Holdout != 4400 ||
		state.Partitions[0].Incarnation != 1 {
		t.Errorf("%d events of the new topic, %+v rows, %+v", n, state.Rows, state.Partitions)
	}
	verified(b, path)
}
