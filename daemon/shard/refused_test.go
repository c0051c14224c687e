package shard_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/shard"
	"github.com/refitd/refitd/sketch"
)

// TestRefusedByKey: a shard whose configuration differs in what the sample depends on is not merged, and the trainer
// names the key, the host and both values; fields in another order, which rows do not show, are noticed like others.
// Then the right one is, also where a shard of another model has written into the topic in its place.
func TestRefusedByKey(t *testing.T) {
	b := daemontest.New(t)
	b.ProduceRatings(1, 1000)
	trainer, stop := b.Start(configure(b, "trainer", "role: trainer, count: 2"))
	defer stop()
	host, _ := os.Hostname()
	refusal := func() string {
		_, body := daemontest.Get(t, "http://"+trainer.Addr()+"/-/ready")
		return body
	}
	shards := 0
	run := func(edit ...string) {
		t.Helper()
		shards++
		name := fmt.Sprint("shard", shards)
		out := b.Run(b.Configure(name, append(append(edit, "size: 20000", "size: 300", "models:",
			"role: shard\nshard: {count: 2, index: 0, topic: merge}\nmodels:"), daemontest.Simple...)...))
		if out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	for _, c := range []struct{ from, to, key, theirs, ours string }{
		{"seed: 42", "seed: 43", "sample.seed", "43", "42"},
		{"size: 20000", "size: 200, max_bytes: 384000", "sample.size", "200", "300"},
		{"fraction: 0.1", "fraction: 0.2", "sample.holdout", "60", "30"},
		{"seed: 42", "seed: 42, half_life: 1h", "sample.half_life", "1h0m0s", "0s"},
		{"seed: 42", "seed: 42, cap: {by: user, share: 0.1}, max_bytes: 384000", "sample.cap.by", `"user"`, `""`},
		{"seed: 42", "seed: 42, max_bytes: 400000", "sample.max_bytes", "400000", "384000"},
		{"levels: 5", "levels: 6", "schema.levels", "6", "5"},
		{"categorical: [user, item]", "categorical: [item, user]", "schema.categorical", "[item user]", "[user item]"},
	} {
		run(c.from, c.to)
		want := fmt.Sprintf("refused: %s", c.key)
		daemontest.Within(t, daemontest.Patience, c.key+" to be refused",
			func() bool { return strings.Contains(refusal(), want) })
		values := strings.ReplaceAll(fmt.Sprintf(`is %s on %s, %s at the trainer`, c.theirs, host, c.ours), `"`, `\"`)
		if got := refusal(); !strings.Contains(got, values) {
			t.Errorf("%s: the trainer says %s", c.key, got)
		}
	}
	right := func(what string) {
		t.Helper()
		run()
		daemontest.Within(t, daemontest.Patience, what,
			func() bool { return !strings.Contains(refusal(), "shard 0 of 2") })
	}
	right("the right one")
	for range 4 { // whose name is drawn at random
		run("name: ratings", "name: others")
		daemontest.Within(t, daemontest.Patience, "another model to be refused", func() bool {
			return strings.Contains(refusal(), `is of model \"others\", not of \"ratings\"`)
		})
		right("the right one again")
	}
}

// TestAnotherTopic: a trainer whose topic was made anew, and is shorter than what was merged of it, ends and says so.
func TestAnotherTopic(t *testing.T) {
	r := rig{t, daemontest.New(t)}
	s, trainer := store(t, sketch.Options{Seed: 7, Mirror: true}), store(t, sketch.Options{Seed: 7, Merges: true})
	apply(t, s, 0, 100)
	r.send(0, s, nil)
	if err := r.receiver(trainer, 2).Run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(r.kafka()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopic(t.Context(), merge); err != nil {
		t.Fatal(err)
	}
	err = r.receiver(trainer, 2).Run(t.Context(), true)
	if !errors.Is(err, shard.ErrTopic) || !strings.Contains(err.Error(), "another topic of that name") {
		t.Errorf("the trainer ended with %v", err)
	}
	if next, _ := trainer.Position("a", 0); next != 100 {
		t.Errorf("it is at %d", next)
	}
}
