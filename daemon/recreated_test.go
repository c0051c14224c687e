package daemon_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon"
	"github.com/refitd/refitd/daemon/operator"
	"github.com/refitd/refitd/daemon/report"
)

// TestRecreatedTopic deletes the topic of a state and makes it anew with more records than were read: every partition halts, a restart
// halts again, and nothing of the new topic is in the state. Once the operator has accepted it, all of it is, as another incarnation, and that is
// proved.
func TestRecreatedTopic(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.produceRatings(31, 400)
	path := b.configure("recreated")
	before := b.run(path)
	if before.err != nil {
		t.Fatal(before.err)
	}
	conf, model, dir := loaded(t, path)
	var said bytes.Buffer
	gap := operator.Gap{Dir: dir, Model: model.Name, Topic: topic, LogStarts: daemon.LogStarts(conf, model, quiet()), Why: "made anew", Log: quiet()}
	if err := gap.AcceptRecreated(t.Context(), report.NewEmitter(&said, true)); report.CodeOf(err) != report.ExitNo {
		t.Fatalf("a topic that is the same: %v", err)
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
	if err := gap.AcceptRecreated(t.Context(), report.NewEmitter(&said, true)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(said.String(), `"type":"recreated","model":"ratings","topic":"ratings"`); n != 4 || strings.Count(said.String(), `"incarnation":1,"start":0,`) != 4 {
		t.Errorf("said %s", &said)
	}
	if err := gap.AcceptRecreated(t.Context(), report.NewEmitter(&said, true)); report.CodeOf(err) != report.ExitNo {
		t.Errorf("accepted again: %v", err)
	}
	if d := decisions(t, dir); len(d) != 1 || d[0].Verb != "accept-gap" || !strings.Contains(d[0].What, "made anew with 4 partitions") || d[0].Why != "made anew" {
		t.Errorf("journal %+v", d)
	}
	accepted := b.run(path)
	if accepted.err != nil {
		t.Fatal(accepted.err)
	}
	state := accepted.state(t)
	if n := balanced(t, state); n != 4000 || state.Rows.Train+state.Rows.Holdout != 4400 || state.Partitions[0].Incarnation != 1 {
		t.Errorf("%d events of the new topic, %+v rows, %+v", n, state.Rows, state.Partitions)
	}
	b.verified(path)
}
