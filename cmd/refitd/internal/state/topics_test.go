package state_test

import (
	"reflect"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"

	"github.com/refitd/refitd/daemon/report"
)

// TestTopicsChange (H5): a topic that is added begins by the start policy, one that is left out keeps its account and
// its rows as they are and continues where it was when it is back, and another group, or none, moves no position.
func TestTopicsChange(t *testing.T) {
	t.Parallel()
	b := daemontest.New(t)
	for _, name := range []string{"more", "late"} {
		if err := b.Broker.CreateTopic(t.Context(), name, 2, 0); err != nil {
			t.Fatal(err)
		}
	}
	values := func(n int) (out [][]byte) {
		for range n {
			out = append(out, []byte(`{"user":"u1","item":"i1","rating":3,"ts":1700000000000}`))
		}
		return out
	}
	b.ProduceTo(daemontest.Topic, values(400)...)
	b.ProduceTo("more", values(300)...)
	b.ProduceTo("late", values(200)...)
	applied := func(edit ...string) (map[string]int64, report.State) {
		t.Helper()
		path := b.Configure("t", edit...)
		o := b.Run(path)
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		verified(b, path)
		s, out := o.State(t), make(map[string]int64)
		daemontest.Balanced(t, s)
		for _, p := range s.Partitions {
			out[p.Topic] += p.Applied
		}
		return out, s
	}
	check := func(what string, got map[string]int64, want map[string]int64) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: applied %v, want %v", what, got, want)
		}
	}
	got, _ := applied()
	check("one topic", got, map[string]int64{daemontest.Topic: 400})
	got, _ = applied("topics: [ratings]", "topics: [ratings, more]")
	check("a topic more", got, map[string]int64{daemontest.Topic: 400, "more": 300})
	got, _ = applied("topics: [ratings]", "topics: [ratings, more, late]", "start: earliest", "start: latest")
	check("a topic more, from its end", got, map[string]int64{daemontest.Topic: 400, "more": 300, "late": 0})
	b.ProduceTo(daemontest.Topic, values(100)...)
	b.ProduceTo("more", values(100)...)
	got, frozen := applied("topics: [ratings]", "topics: [more]")
	check("a topic less", got, map[string]int64{daemontest.Topic: 400, "more": 400, "late": 0})
	if rows := frozen.Rows.Train + frozen.Rows.Holdout; rows != 800 {
		t.Errorf("%d rows of 800 events", rows)
	}
	got, before := applied()
	check("the topic again", got, map[string]int64{daemontest.Topic: 500, "more": 400, "late": 0})
	for name, group := range map[string]string{"another group": "group_id: other",
		"the group of before": "group_id: g-t"} {
		if got, after := applied("group_id: g-t", group); !reflect.DeepEqual(after, before) {
			t.Errorf("%s: %v applied, state\n%+v\nwas\n%+v", name, got, after, before)
		}
	}
}
