package kafkasource

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
)

// streamed is what the module for Kafka Streams has to answer: in steps, of which each begins with records.
type streamed struct {
	Dir     string           `json:"dir"`
	Store   string           `json:"store"`
	Key     string           `json:"key"`
	Each    int              `json:"each"`    // events of a step
	Ignored int              `json:"ignored"` // records
	Events  []string         `json:"events"`  // in JSON
	Answers map[string][]any `json:"answers"` // by version.delta
	Steps   []streamedStep   `json:"steps"`
}

type streamedStep struct {
	Name    string           `json:"name"`
	Records []streamedRecord `json:"records"`
	States  []string         `json:"states"` // version.delta, from that before the records to the last
}

type streamedRecord struct {
	Topic  string `json:"topic"`
	Key    string `json:"key"`
	Value  []byte `json:"value"`
	Format string `json:"format"`
}

// answersOf are the answers of a model to events that are mostly known.
func answersOf(t *testing.T, m *snapshot.Model, events []string) (list []any) {
	t.Helper()
	at := ""
	if m.Position().Sequence > 0 {
		at = m.Position().Digest
	}
	for _, text := range events {
		var event map[string]any
		notObject := json.Unmarshal([]byte(text), &event) != nil || event == nil
		answer := struct {
			*answer.Answer
			Digest      string `json:"digest"`
			DeltaDigest string `json:"delta_digest,omitempty"`
			Error       string `json:"error,omitempty"`
		}{Digest: m.Manifest().PayloadDigest, DeltaDigest: at}
		in, err := m.Schema().InputFromMap(event)
		if notObject {
			answer.Error = "the event is not an object"
		} else if err != nil {
			answer.Error = err.Error()
		} else {
			p, err := m.Predict(&in)
			snapshottest.Must(t, err)
			of := p.Answer()
			answer.Answer = &of
		}
		list = append(list, answer)
	}
	return list
}

// announced is the record of what the champion is now, with or without the version's files.
func announced(t *testing.T, store *publish.Store, dir string, inline bool) streamedRecord {
	t.Helper()
	p, err := store.Alias("m", pointer.Champion)
	snapshottest.Must(t, err)
	m, err := store.Manifest("m", p.Version)
	snapshottest.Must(t, err)
	a := Announce(pointer.Champion, p, &m)
	if inline {
		a.Inline = map[string][]byte{}
		for _, name := range []string{"manifest.json", "manifest.sig", "model.safetensors", "vocabulary", "golden.jsonl"} {
			a.Inline[name], err = os.ReadFile(filepath.Join(dir, "m", fmt.Sprint(p.Version), name))
			snapshottest.Must(t, err)
		}
	}
	return recordOf(t, a)
}

func recordOf(t *testing.T, a *Announcement) streamedRecord {
	t.Helper()
	r, err := a.Record("champions")
	snapshottest.Must(t, err)
	return streamedRecord{r.Topic, string(r.Key), r.Value, string(r.Headers[0].Value)}
}

// forged are records that nobody may take: another key, another format, a later move that is not signed so, a file that
// is not the version's (of which the announcement is genuine), and no JSON.
func forged(t *testing.T, genuine streamedRecord) []streamedRecord {
	t.Helper()
	change := func(change func(a *Announcement)) streamedRecord {
		var a Announcement
		snapshottest.Must(t, json.Unmarshal(genuine.Value, &a))
		change(&a)
		return recordOf(t, &a)
	}
	other, later, text := genuine, genuine, genuine
	other.Key, later.Format, text.Value = "other", "2", []byte("{")
	return []streamedRecord{other, later, text,
		change(func(a *Announcement) { a.Sequence += 1000 }),
		change(func(a *Announcement) { a.Inline["model.safetensors"][200] ^= 1 })}
}

// TestJavaStreams: the module for Kafka Streams scores events while one version is announced after the other, rolled
// back, and changed by deltas. Each answer names its version and is that of the library.
func TestJavaStreams(t *testing.T) {
	classes := snapshottest.JavaModule(t, "streams")
	dir := t.TempDir()
	store := publish.NewStore(dir)
	var keys format.Keys
	store.Signer, keys = snapshottest.Signer(t, 1)
	ordinal := func(kernel string, k int) snapshottest.Shape {
		return snapshottest.Shape{Task: format.Ordinal, Link: format.OrdinalLink, Kernel: kernel, K: k, Linear: true}
	}
	want := streamed{Dir: t.TempDir(), Store: dir, Key: snapshottest.KeyFile(t, dir, 1), Answers: map[string][]any{},
		Each: tier.Size(4_000, 200_000)}
	rng := rand.New(rand.NewPCG(7, 7))
	for range 500 {
		want.Events = append(want.Events, fmt.Sprintf(`{"user":"u%d","item":"i%d","age":%d,"tags":["a","b"],"other":1}`,
			1+rng.IntN(4), 1+rng.IntN(3), rng.IntN(90)))
	}
	want.Events = append(want.Events, `{"user":true}`, `{"user":"new0-7-1"}`, `{}`, `null`, `"x"`, `[1]`)
	models := map[int64]*snapshot.Model{}
	for i, s := range []snapshottest.Shape{ordinal(format.ANOVA, 1), ordinal(format.ANOVA, 5),
		ordinal(format.Homogeneous, 4)} {
		version := int64(i + 1)
		_, err := store.Publish(t.Context(), "m", snapshottest.TestContents(s))
		snapshottest.Must(t, err)
		models[version], err = snapshot.Trust{Keys: keys}.Open(dir, "m", snapshot.Selector{Version: version})
		snapshottest.Must(t, err)
		want.Answers[fmt.Sprintf("%d.0", version)] = answersOf(t, models[version], want.Events)
	}
	move := func(to int64, event pointer.Event, inline bool) streamedRecord {
		_, err := store.MoveAlias(t.Context(), "m", publish.Move{Alias: pointer.Champion, To: to, Event: event})
		snapshottest.Must(t, err)
		return announced(t, store, dir, inline)
	}
	step := func(name string, records []streamedRecord, states ...string) {
		want.Steps = append(want.Steps, streamedStep{name, records, states})
	}
	first := move(1, "", true)
	bad := forged(t, first)
	want.Ignored = len(bad)
	step("the first version", append(bad, first), "1.0")
	step("a promotion, without files", []streamedRecord{move(2, "", false), first}, "1.0", "2.0")

	states := []string{"2.0"}
	var deltas, takenBack []streamedRecord
	for m := models[2]; len(deltas) < 8; {
		frame, next, err := snapshottest.DeltaAfter(m, 1, store.Signer)
		snapshottest.Must(t, err)
		m = next
		key := fmt.Sprintf("m/lineage/2/%d", m.Position().Sequence)
		deltas = append(deltas, streamedRecord{"deltas", key, frame, "1"})
		takenBack = append(takenBack, streamedRecord{Topic: "deltas", Key: key, Format: "1"})
		states = append(states, fmt.Sprintf("2.%d", m.Position().Sequence))
		want.Answers[states[len(states)-1]] = answersOf(t, m, want.Events)
	}
	cut := deltas[0]
	cut.Value = cut.Value[:len(cut.Value)-1]
	want.Ignored++
	older, gone := deltas[1], takenBack[1] // of a lineage before: what is taken back of it takes nothing from this one
	older.Key, gone.Key = "m/before/2/2", "m/before/2/2"
	step("deltas", append([]streamedRecord{cut, older, deltas[1], gone, deltas[0]}, deltas[2:]...), states...)
	step("another promotion", append([]streamedRecord{move(3, "", true)}, takenBack...), "2.8", "3.0")
	step("a rollback", []streamedRecord{move(2, publish.EventRollback, true)}, "3.0", "2.0")
	snapshottest.RunJava(t, classes, "io.github.refitd.streams.StreamsTest", want)
}
