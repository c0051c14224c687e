package shard_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/avro"

	"github.com/refitd/refitd/daemon/daemontest"
)

// avroRating is the schema of daemontest.Rating.
const avroRating = `{"type":"record","name":"R","fields":[{"name":"ts","type":"long"},{"name":"rating","type":"int"},
	{"name":"item","type":["null","string"]},{"name":"user","type":"string"}]}`

// inAvro returns the same ratings as JSON and in Avro, with one value in a hundred that is neither.
func inAvro(t *testing.T, seed uint64, n int) (plain, framed [][]byte) {
	t.Helper()
	schema, r := avro.MustParse(avroRating), rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		value := daemontest.Rating(r)
		var e struct {
			User, Item string
			Rating     int32
			TS         int64
		}
		if err := json.Unmarshal(value, &e); err != nil {
			t.Fatal(err)
		}
		data, err := schema.Encode(map[string]any{"user": e.User, "item": e.Item, "rating": e.Rating, "ts": e.TS})
		if err != nil {
			t.Fatal(err)
		}
		data = append([]byte{0, 0, 0, 0, 7}, data...)
		if i%100 == 99 {
			value, data = value[:len(value)-1], data[:len(data)-1]
		}
		plain, framed = append(plain, value), append(framed, data)
	}
	return plain, framed
}

// TestTeamsInAvro: a team of three shards, and a group that one process is, read Avro into the sample that one process
// has of the same events as JSON. Later they read without the registry, and so does a process that takes the shards of
// the group up without a state.
func TestTeamsInAvro(t *testing.T) {
	t.Parallel()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"schema": avroRating})
	}))
	defer registry.Close()
	b, other := daemontest.New(t), daemontest.New(t)
	in := func(name, topic, role string) string {
		models := "models:"
		if role, keys, ok := strings.Cut(role, ", "); ok {
			models = role + "\nshard: {" + keys + ", topic: " + topic + "}\nmodels:"
		}
		return b.Configure(name, append([]string{"group_id: g-" + name, "group_id: g-" + role[:min(1, len(role))],
			"size: 20000", "size: 300", "models:", models, "start: earliest", "start: earliest, format: avro",
			"fetch_max_wait: 100ms", "fetch_max_wait: 100ms, schema_registry: {url: \"" + registry.URL + "\"}"},
			daemontest.Simple...)...)
	}
	whole := configure(other, "whole", "")
	trainer := in("trainer", "merge", "role: trainer, count: 3")
	var shards []string
	for i := range 3 {
		shards = append(shards,
			in(fmt.Sprint("shard", i), "merge", fmt.Sprintf("role: shard, count: 3, index: %q", fmt.Sprint(i))))
	}
	const group = "role: shard, group: held"
	grouped, moved := in("grouped", "merge-g", group), in("moved", "merge-g", group)
	groupTrainer := in("trainer-g", "merge-g", "role: trainer, group: held")
	for i, what := range []string{"with the registry", "without the registry"} {
		plain, framed := inAvro(t, uint64(i), 2000)
		other.Produce(plain...)
		b.Produce(framed...)
		one := other.Run(whole)
		for _, path := range append(slices.Clone(shards), trainer, []string{grouped, moved}[i], groupTrainer) {
			out := b.Run(path)
			if out.Err != nil || one.Err != nil {
				t.Fatalf("%s: %s: %v, %v", what, path, out.Err, one.Err)
			}
			if path != trainer && path != groupTrainer {
				continue
			}
			got, want := out.State(t), one.State(t)
			if got.SampleDigest != want.SampleDigest || got.Rows != want.Rows || len(got.Partitions) != len(want.Partitions) {
				t.Errorf("%s: %s has %+v, one process %+v", what, path, got, want)
			}
			if got.RejectedByReason["not_avro"] != int64(20*(i+1)) {
				t.Errorf("%s: %v", what, got.RejectedByReason)
			}
			for j, p := range got.Partitions {
				if q := want.Partitions[j]; p.Applied != q.Applied || p.Rejected != q.Rejected || p.Next != q.Next {
					t.Errorf("%s: %+v, want %+v", what, p, q)
				}
			}
		}
		registry.Close()
	}
}
