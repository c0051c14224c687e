package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/consumer"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest/ingesttest"
	"github.com/refitd/refitd/daemon/ingest/pasts"
	"github.com/refitd/refitd/sketch"
)

// derivedModel has derived fields of users and of items.
func derivedModel(size int) *config.Model {
	m := ingesttest.Ratings(size)
	m.Schema.Derived = []config.Derived{
		{Name: "before", Kind: "previous_label", Of: "user"},
		{Name: "hour", Kind: "time_bin", Unit: "hour"},
		{
			Name: "age",
			Kind: "age",
			Of:   "item",
			Unit: "minute",
		},
		{Name: "last", Kind: "last", Of: "user", Field: "item", K: 3},
	}
	m.Schema.Categorical, m.Schema.Multi = []string{"user", "item", "before", "hour", "age"}, []string{"last"}
	m.Schema.Optional = []string{"age", "before", "hour", "last"}
	m.Schema.Cross = [][]string{{"item", "before"}}
	m.Sample.Holdout.Fraction, m.Sample.Holdout.Size, m.Sample.MaxBytes = 0.2, 0, 0
	m.Resolve()
	return m
}

// rating is what the slow twin knows of an event.
type rating struct {
	user, item string
	label, at  int
}

// logOf returns the log of a partition, every eleventh record of which is no event.
func logOf(seed uint64, p int32, n int) (*consumer.Batch, []rating) {
	r := rand.New(rand.NewPCG(seed, uint64(p)))
	b := &consumer.Batch{Topic: "t", Partition: p, Next: int64(n), HighWatermark: int64(n)}
	var events []rating
	at := 1_700_000_000_000
	for i := range n {
		at += r.IntN(600_000)
		e := rating{fmt.Sprintf("u%d", r.IntN(20)), fmt.Sprintf("i%d", r.IntN(15)), 1 + r.IntN(5), at}
		value := fmt.Sprintf(`{"user":%q,"item":%q,"rating":%d,"ts":%d}`, e.user, e.item, e.label, e.at)
		if i%11 == 10 {
			value, e = "{", rating{}
		}
		events = append(events, e)
		b.Records = append(b.Records,
			consumer.Record{Offset: int64(i), Value: []byte(value), Timestamp: int64(at), CRC: r.Uint32()})
	}
	return b, events
}

// expected returns the row of the event at an offset, from all events of its partition before it.
func expected(events []rating, offset int64) *event.Event {
	e := events[offset]
	before, age, last := "", "0", []string{}
	first := e.at
	for n := int64(0); n < offset; n++ {
		if events[n].user == e.user {
			before, last = fmt.Sprint(events[n].label), append([]string{events[n].item}, last[:min(len(last), 2)]...)
		}
		if events[n].item == e.item {
			first = min(first, events[n].at)
		}
	}
	age = event.LogBin(int64(e.at-first) / 60_000)
	var names []string
	for _, name := range last {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	crossed := ""
	if before != "" {
		crossed = e.item + "×" + before
	}
	hour := fmt.Sprint(e.at / 3_600_000 % 24)
	return &event.Event{
		Label:       float64(e.label),
		Weight:      1,
		Time:        int64(e.at),
		Categorical: []string{e.user, e.item, before, hour, age, crossed},
		Multi:       [][]string{names},
	}
}

// stored returns the rows and the entities of a store, by their places.
func stored(t *testing.T, store *sketch.Store) map[string]string {
	t.Helper()
	out := make(map[string]string)
	sample, err := store.Sample()
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range [][]sketch.Row{sample.Train, sample.Select, sample.Gate} {
		for _, r := range rows {
			out[fmt.Sprintf("row %d/%d", r.Partition, r.Offset)] = string(r.Payload)
		}
	}
	for p := range int32(2) {
		err := store.Entities("t", p, func(e sketch.Entity) error {
			out[fmt.Sprintf("entity %d/%v", p, e.Key)] = string(e.Value)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// play gives an ingest what its store has not read of two logs, in parts of some records, one partition after the other
// in turn.
func play(g *Ingest, store *sketch.Store, size int, logs ...*consumer.Batch) error {
	for more := true; more; {
		more = false
		for _, log := range logs {
			next, _ := store.Position("t", log.Partition)
			part := *log
			part.Base, part.Next = next, min(next+int64(size), log.Next)
			part.Records = log.Records[part.Base:part.Next]
			if part.Base < part.Next {
				more = true
				if err := g.Apply(context.Background(), &part); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// TestDerivedRows: rows, held-out ones too, have derived fields as all events of their partition before them make them,
// whatever the batches, the order of the partitions and the number of processors.
func TestDerivedRows(t *testing.T) {
	a, first := logOf(1, 0, 700)
	b, second := logOf(1, 1, 500)
	m := derivedModel(5000)
	var want map[string]string
	for _, size := range []int{1, 64, 700} {
		g, store := newIngest(t, m, "")
		logs := []*consumer.Batch{a, b}
		if size == 64 {
			slices.Reverse(logs)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		}
		if err := play(g, store, size, logs...); err != nil {
			t.Fatal(err)
		}
		got := stored(t, store)
		if want == nil {
			want = got
			sample, err := store.Sample()
			if err != nil || len(sample.Train)+len(sample.Select)+len(sample.Gate) != 1200-108 ||
				len(sample.Gate) == 0 {
				t.Fatalf("%d rows to train on, %d to select, %d to judge: %v", len(sample.Train), len(sample.Select),
					len(sample.Gate), err)
			}
			for _, rowList := range [][]sketch.Row{sample.Train, sample.Select, sample.Gate} {
				for _, r := range rowList {
					events := [][]rating{first, second}[r.Partition]
					if twin := rows.AppendEvent(nil, expected(events, r.Offset)); !bytes.Equal(r.Payload, twin) {
						t.Fatalf("%d/%d: %q, want %q", r.Partition, r.Offset, r.Payload, twin)
					}
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("parts of %d: another state", size)
		}
	}
}

// TestDerivedAfterCrash: a process that ends with any transaction, and one that continues from there, come to the
// same rows and entities.
func TestDerivedAfterCrash(t *testing.T) {
	a, _ := logOf(2, 0, 300)
	b, _ := logOf(2, 1, 200)
	m := derivedModel(400)
	g, store := newIngest(t, m, "")
	if err := play(g, store, 90, a, b); err != nil {
		t.Fatal(err)
	}
	want := stored(t, store)
	for _, crash := range []int{1, 3, 4} {
		dir := filepath.Join(t.TempDir(), "before")
		g, store := newIngest(t, m, dir)
		var copied bytes.Buffer
		commits := 0
		errCrash := errors.New("crash")
		err := store.Recorded(func(*sketch.Change) error {
			if commits++; commits < crash {
				return nil
			}
			if _, err := store.Backup(&copied); err != nil {
				return err
			}
			return errCrash
		}, func() error { return play(g, store, 90, a, b) })
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		after := filepath.Join(t.TempDir(), "after")
		if _, err := sketch.Restore(t.Context(), after, &copied, nil); err != nil {
			t.Fatal(err)
		}
		g, store = newIngest(t, m, after)
		if err := play(g, store, 37, a, b); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(stored(t, store), want) {
			t.Errorf("crash at commit %d: another state", crash)
		}
	}
}

// TestDerivedBound: no more entities are kept than the limit, those that were seen last, also after a restart, and
// memory holds what the store holds.
func TestDerivedBound(t *testing.T) {
	a, events := logOf(3, 0, 300)
	m := derivedModel(400)
	dir := t.TempDir()
	g, store := newIngest(t, m, dir)
	g.pasts.Limit = 9
	part := *a
	part.Next, part.Records = 150, a.Records[:150]
	if err := g.Apply(t.Context(), &part); err != nil {
		t.Fatal(err)
	}
	again := New(m, store, nil)
	again.pasts.Limit = 9
	if err := play(again, store, 50, a); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for n := len(events) - 1; len(want) < 9; n-- {
		for _, name := range []string{"item " + events[n].item, "user " + events[n].user} {
			if events[n].user != "" && len(want) < 9 {
				want[name] = true
			}
		}
	}
	kept := 0
	if err := store.Entities("t", 0, func(e sketch.Entity) error {
		kept++
		for name := range want {
			field, value, _ := strings.Cut(name, " ")
			if sketch.SubjectHash(field, []byte(value)) == e.Key {
				return nil
			}
		}
		return errors.New("an entity that was not among the last")
	}); err != nil || kept != 9 {
		t.Errorf("%d entities: %v", kept, err)
	}
	if n, dropped := again.Pasts().Counts(); n != 9 || dropped == 0 {
		t.Errorf("%d entities, %d dropped", n, dropped)
	}
}

// TestDerivedForgotten: nothing is left of a forgotten subject, neither its own past nor its name in that of others,
// and reading the log again does not bring it back.
func TestDerivedForgotten(t *testing.T) {
	a, events := logOf(4, 0, 300)
	m := derivedModel(400)
	g, store := newIngest(t, m, t.TempDir())
	if err := play(g, store, 300, a); err != nil {
		t.Fatal(err)
	}
	for _, subject := range [][2]string{{"user", events[299].user}, {"item", events[298].item}} {
		if _, err := store.ForgetSubject(subject[0], []byte(subject[1])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Erase(t.Context(), m, store); err != nil {
		t.Fatal(err)
	}
	o := StoreOptions(m)
	var err error
	state, err := store.State()
	if err != nil {
		t.Fatal(err)
	}
	o.Forgotten = state.Forgotten
	made, err := sketch.NewMemory(o)
	if err == nil {
		err = made.Begin("t", 0, 0)
	}
	if err == nil {
		err = play(New(m, made, nil), made, 100, a)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*sketch.Store{"erased": store, "made anew": made} {
		for at, value := range stored(t, s) {
			for _, word := range []string{events[299].user, events[298].item} {
				length := string(rune(len(word))) // names are preceded by theirs
				if strings.Contains(value, length+word) && !strings.Contains(value, length+word+"×") {
					t.Errorf("%s: %s has %q: %q", name, at, word, value)
				}
			}
			if strings.HasSuffix(at, sketch.SubjectHash("user", []byte(events[299].user)).String()) {
				t.Errorf("%s: the user's past is there", name)
			}
		}
	}
}

// TestDerivedRowTooLong: an event whose row has no room for derived fields is kept without them.
func TestDerivedRowTooLong(t *testing.T) {
	a, _ := logOf(5, 0, 100)
	m := derivedModel(400)
	g, store := newIngest(t, m, "")
	g.rowLimit = 2600
	if err := play(g, store, 100, a); err != nil {
		t.Fatal(err)
	}
	sample, err := store.Sample()
	if err != nil {
		t.Fatal(err)
	}
	with, without := 0, 0
	var ev event.Event
	for _, r := range sample.Train {
		if err := rows.DecodeEvent(&ev, r.Payload, map[string]string{}); err != nil || rows.RowBytes(r.Payload) > 2600 {
			t.Fatal(err)
		}
		if ev.Categorical[3] == "" {
			without++
		} else {
			with++
		}
	}
	if with == 0 || without == 0 {
		t.Errorf("%d rows with derived fields, %d without", with, without)
	}
}

// TestFill: an event is given the past of its entity where that was seen last, keeps what it has, and lacks what nobody
// knows.
func TestFill(t *testing.T) {
	m := derivedModel(400)
	p := pasts.New(m, nil)
	take := func(partition int32, offset, at int64, user, item string, label float64) {
		ev := event.Event{
			Label:       label,
			Time:        at,
			Categorical: []string{user, item, "", "", "", ""},
			Multi:       [][]string{nil},
		}
		if _, _, err := p.Take("t", partition, offset, &ev, true, nil); err != nil {
			t.Fatal(err)
		}
	}
	take(0, 0, 60_000, "u", "a", 2)
	take(1, 0, 7_200_000, "u", "b", 4)
	take(0, 1, 3_600_000, "u", "c", 3)
	for name, c := range map[string]struct {
		event event.Event
		want  string
	}{
		"known": {event.Event{Categorical: []string{"u", "a", "", "", ""}, Multi: [][]string{nil}},
			"[u a 4 3 128-255] [[b]]"},
		"unknown": {event.Event{Categorical: []string{"v", "x", "", "", ""}, Multi: [][]string{nil}}, "[v x  3 ] [[]]"},
		"has one": {event.Event{Categorical: []string{"u", "x", "5", "", ""}, Multi: [][]string{{}}}, "[u x 5 3 ] [[b]]"},
		"has lists": {event.Event{Categorical: []string{"u", "x", "", "7", ""}, Multi: [][]string{{"z"}}},
			"[u x 4 7 ] [[z]]"},
	} {
		ev := c.event
		ev.Time = 3*3_600_000 + 5
		if err := p.Fill(&ev); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(ev.Categorical, " ", ev.Multi); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if kept, dropped := p.Counts(); kept != 5 || dropped != 0 {
		t.Errorf("%d entities, %d dropped", kept, dropped)
	}
}

// TestGiven: rows without derived fields are those of a model that has none.
func TestGiven(t *testing.T) {
	a, events := logOf(6, 0, 50)
	m := derivedModel(400)
	g, store := newIngest(t, m, "")
	if err := play(g, store, 50, a); err != nil {
		t.Fatal(err)
	}
	sample, err := store.Sample()
	if err != nil {
		t.Fatal(err)
	}
	given := pasts.Given(m)
	for _, r := range sample.Train {
		e := events[r.Offset]
		plain := &event.Event{
			Label:       float64(e.label),
			Weight:      1,
			Time:        int64(e.at),
			Categorical: []string{e.user, e.item, "", "", "", ""},
			Multi:       [][]string{nil},
		}
		if got, err := given(r.Payload); err != nil || !bytes.Equal(got, rows.AppendEvent(nil, plain)) {
			t.Fatalf("offset %d: %q, %v", r.Offset, got, err)
		}
	}
}
