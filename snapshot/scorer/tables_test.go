package scorer

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/where"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

var manyQueries = flag.Int("queries", 4000, "random queries with conditions against a slow twin")

// tabled is a model of users and items whose items have a genre, a flag, tags and a price in a table, of which some
// have no column, with the rows as the test knows them.
type tabled struct {
	rng   *rand.Rand
	model *Model
	rows  map[string]*format.TableRow
}

func (x *tabled) row(name string) *format.TableRow {
	r := &format.TableRow{Name: name, Categorical: []string{fmt.Sprint("g", x.rng.IntN(4)), "true"},
		Multi: [][]string{{}}, Numeric: []float64{float64(x.rng.IntN(20))}}
	if x.rng.IntN(3) == 0 {
		r.Categorical[1] = "false"
	}
	if x.rng.IntN(5) == 0 {
		r.Categorical[0], r.Numeric[0] = "", math.NaN()
	}
	for range x.rng.IntN(3) {
		if tag := fmt.Sprint("t", x.rng.IntN(5)); !slices.Contains(r.Multi[0], tag) {
			r.Multi[0] = append(r.Multi[0], tag)
		}
	}
	return r
}

// homogeneous is the seed of a model with that kernel and lists of weight 1/√n.
const homogeneous = 5

func newTabled(t *testing.T, seed uint64, items int) *tabled {
	t.Helper()
	x := &tabled{rng: rand.New(rand.NewPCG(seed, 1)), rows: make(map[string]*format.TableRow)}
	c := &format.Contents{
		Schema: format.Schema{Task: format.Regression, Label: "y", Categorical: []string{"user", "item", "genre", "in_stock"},
			Multi: []string{"tags"}, Numeric: []format.NumericField{{Name: "price", Center: 10, Scale: 10, Clip: 1}},
			Optional: []string{"genre", "in_stock", "tags", "price"}},
		Kernel: format.ANOVA, Link: format.Identity, NumOutputs: 1, NumBasis: 3, Vocabulary: make([][]string, 5),
		Meta: format.Meta{Created: snapshottest.Created}, Bias: []float64{0.5},
		Golden: []format.Golden{{Input: format.Input{Categorical: []string{"u1", "i1", "", ""}}}},
	}
	for i := range items {
		if i < 10 {
			c.Vocabulary[0] = append(c.Vocabulary[0], fmt.Sprint("u", i))
		}
		name := fmt.Sprint("i", i)
		if i%4 > 0 {
			c.Vocabulary[1] = append(c.Vocabulary[1], name)
		}
		if i%7 > 0 {
			x.rows[name] = x.row(name)
		}
	}
	c.Vocabulary[2], c.Vocabulary[3] = []string{"g0", "g1", "g2"}, []string{"false", "true"}
	c.Vocabulary[4] = []string{"t0", "t1", "t2", "t3"}
	if seed == homogeneous {
		c.Kernel, c.Schema.MultiWeights = format.Homogeneous, []string{format.WeightSqrt}
	}
	for _, names := range c.Vocabulary {
		c.NumFeatures += len(names)
	}
	c.NumFeatures++
	for _, of := range []struct {
		to *[]float64
		n  int
	}{{&c.Basis, 3 * c.NumFeatures}, {&c.Linear, c.NumFeatures}, {&c.Weights, 3}} {
		for range of.n {
			*of.to = append(*of.to, x.rng.NormFloat64())
		}
	}
	list := make([]*format.TableRow, 0, len(x.rows))
	for _, name := range slices.Sorted(maps.Keys(x.rows)) {
		list = append(list, x.rows[name])
	}
	c.Tables = []*format.Table{format.NewTable("items", "item", []string{"genre", "in_stock"}, []string{"tags"},
		[]string{"price"}, list)}
	var err error
	x.model, err = NewModel(c)
	snapshottest.Must(t, err)
	return x
}

// given is an event with what the test knows of its item written into it.
func (x *tabled) given(user, item string) *format.Input {
	in := &format.Input{Categorical: []string{user, item, "", ""}, Numeric: []float64{math.NaN()}, Multi: [][]string{nil}}
	if r := x.rows[item]; r != nil {
		in.Categorical[2], in.Categorical[3] = r.Categorical[0], r.Categorical[1]
		in.Numeric[0], in.Multi[0] = r.Numeric[0], r.Multi[0]
	}
	return in
}

// change applies a delta that changes rows of the table, adds names and takes rows away, after it went through a frame.
func (x *tabled) change(t *testing.T) {
	t.Helper()
	d := snapshottest.RowsDelta(x.rng, x.model, 3, x.rng.IntN(2))
	changed := make(map[string]*format.TableRow)
	for range 1 + x.rng.IntN(4) {
		name := fmt.Sprint("i", x.rng.IntN(80))
		if x.rng.IntN(4) == 0 {
			changed[name] = &format.TableRow{Name: name, Removed: true}
		} else {
			changed[name] = x.row(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		d.TableRows = append(d.TableRows, changed[name])
		if x.rows[name] = changed[name]; changed[name].Removed {
			delete(x.rows, name)
		}
	}
	frame, err := d.Encode(x.model.Shape(), nil)
	snapshottest.Must(t, err)
	read, err := format.DecodeDelta(frame, x.model.Shape(), nil)
	snapshottest.Must(t, err)
	x.model, err = x.model.Apply(read)
	snapshottest.Must(t, err)
}

// ask returns a random query.
func (x *tabled) ask() *format.Query {
	q := &format.Query{Input: format.Input{Categorical: []string{fmt.Sprint("u", x.rng.IntN(12)), "", "", ""}},
		Over: "item", K: 1 + x.rng.IntN(12)}
	for range x.rng.IntN(6) {
		q.Exclude = append(q.Exclude, fmt.Sprint("i", x.rng.IntN(80)))
	}
	number := func() *float64 { v := float64(x.rng.IntN(20)); return &v }
	if x.rng.IntN(2) == 0 {
		q.Where = append(q.Where,
			format.Condition{Field: "in_stock", Any: []string{[]string{"true", "false"}[x.rng.IntN(2)]}})
	}
	if x.rng.IntN(2) == 0 {
		q.Where = append(q.Where, format.Condition{Field: "genre", Any: []string{fmt.Sprint("g", x.rng.IntN(5)), "g1"}})
	}
	if x.rng.IntN(3) == 0 {
		q.Where = append(q.Where, format.Condition{Field: "tags", Any: []string{fmt.Sprint("t", x.rng.IntN(6)), "t0"}})
	}
	switch x.rng.IntN(4) {
	case 0:
		q.Where = append(q.Where, format.Condition{Field: "price", Min: number()})
	case 1:
		q.Where = append(q.Where, format.Condition{Field: "price", Max: number()})
	}
	return q
}

// passes reports by the rows that the test knows whether a name passes.
func (x *tabled) passes(q *format.Query, name string) bool {
	r := x.rows[name]
	for _, w := range q.Where {
		is := func(v string) bool { return v != "" && slices.Contains(w.Any, v) }
		switch {
		case r == nil:
			return false
		case w.Field == "genre" && !is(r.Categorical[0]), w.Field == "in_stock" && !is(r.Categorical[1]),
			w.Field == "tags" && !slices.ContainsFunc(r.Multi[0], is):
			return false
		case w.Field == "price" && !(w.Min == nil || r.Numeric[0] >= *w.Min),
			w.Field == "price" && !(w.Max == nil || r.Numeric[0] <= *w.Max):
			return false
		}
	}
	return !slices.Contains(q.Exclude, name)
}

// slow ranks every name that the model or the table knows, with what the table says written into each event.
func (x *tabled) slow(t *testing.T, q *format.Query) (items []format.Item) {
	t.Helper()
	names := maps.Clone(x.rows)
	for _, name := range x.model.Contents().Vocabulary[1] {
		names[name] = nil
	}
	for name := range names {
		if !x.passes(q, name) {
			continue
		}
		out := make([]float64, 1)
		in := x.given(q.Input.Categorical[0], name)
		x.model.Score(out, in, new(Scratch))
		items = append(items, format.Item{Name: name, Value: out[0]})
	}
	slices.SortFunc(items, func(a, b format.Item) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name))
	})
	return items[:min(len(items), q.K)]
}

// TestWhereAgainstSlowTwin: lists with conditions are those of a twin that scores every name with its row written into
// the event, before and after deltas; names without a column are among them, and excluded ones never.
func TestWhereAgainstSlowTwin(t *testing.T) {
	t.Run("anova", func(t *testing.T) { whereAgainstSlowTwin(t, newTabled(t, 1, 60)) })
	t.Run("homogeneous", func(t *testing.T) { whereAgainstSlowTwin(t, newTabled(t, homogeneous, 60)) })
}

func whereAgainstSlowTwin(t *testing.T, x *tabled) {
	t.Helper()
	var scratch Scratch
	lists, without := 0, 0
	for n := range *manyQueries {
		if n%40 == 39 && n < 4000 {
			x.change(t)
		}
		q := x.ask()
		got, err := x.model.TopK(nil, q, &scratch)
		snapshottest.Must(t, err)
		want := x.slow(t, q)
		if len(got) != len(want) {
			t.Fatalf("query %d: %v, want %v", n, got, want)
		}
		for i := range got {
			if math.Abs(got[i].Value-want[i].Value) > 1e-9 ||
				got[i].Name != want[i].Name && math.Abs(got[i].Value-want[i].Value) > 1e-12 {
				t.Fatalf("query %d %+v: %v, want %v", n, q.Where, got, want)
			}
			if _, ok := x.model.Column(1, got[i].Name); !ok {
				without++
			}
		}
		if len(got) > 0 {
			lists++
		}
	}
	if lists < *manyQueries/3 || without < 100 {
		t.Errorf("%d lists, %d names without a column: too few to show anything", lists, without)
	}
}

// TestExtrasAgainstSlowTwin: after a delta the names that tables alone know are those of a list that begins anew; of a
// delta that changes none of them the list is the one before.
func TestExtrasAgainstSlowTwin(t *testing.T) {
	x := newTabled(t, 3, 60)
	came, went, kept := 0, 0, 0
	for n := range 300 {
		before := x.model.extras[1]
		if n%3 == 0 && len(before) > 0 { // one of them is learned
			d := snapshottest.RowsDelta(x.rng, x.model, 3, 1)
			d.Added[0] = format.AddedName{Field: 1, Name: before[x.rng.IntN(len(before))]}
			var err error
			x.model, err = x.model.Apply(d)
			snapshottest.Must(t, err)
		} else {
			x.change(t)
		}
		slow := *x.model
		slow.listExtras()
		if got := x.model.extras; !slices.EqualFunc(got, slow.extras, slices.Equal) {
			t.Fatalf("delta %d: %v, want %v", n, got, slow.extras)
		}
		switch got := x.model.extras[1]; {
		case len(got) > len(before):
			came++
		case len(got) < len(before):
			went++
		case len(got) > 0 && &got[0] == &before[0]:
			kept++
		}
	}
	if came < 10 || went < 10 || kept < 10 {
		t.Errorf("%d came, %d went, %d lists were kept: too few to show anything", came, went, kept)
	}
}

// TestJoinedScores: an event that names user and item alone scores as one in which the row is written, in the model and
// after deltas; so do Predict, Explain, batches, and a version of the model with its deltas, which has the same rows.
func TestJoinedScores(t *testing.T) {
	x := newTabled(t, 2, 60)
	for n := range 300 {
		if n%10 == 9 {
			x.change(t)
		}
		user, item := fmt.Sprint("u", x.rng.IntN(12)), fmt.Sprint("i", x.rng.IntN(80))
		plain := &format.Input{Categorical: []string{user, item, "", ""}}
		want, err := x.model.Predict(x.given(user, item))
		snapshottest.Must(t, err)
		got, err := x.model.Predict(plain)
		snapshottest.Must(t, err)
		explained, err := x.model.Explain(plain)
		snapshottest.Must(t, err)
		if got.Value != want.Value || explained.Value != want.Value || !slices.Equal(got.Absent, want.Absent) ||
			!slices.Equal(got.Unseen, want.Unseen) {
			t.Fatalf("%s and %s: %+v, want %+v", user, item, got, want)
		}
	}
	c := x.model.Contents()
	again, err := NewModel(c)
	snapshottest.Must(t, err)
	for name := range x.rows {
		in := &format.Input{Categorical: []string{"u1", name, "", ""}}
		a, err := x.model.Predict(in)
		snapshottest.Must(t, err)
		b, err := again.Predict(in)
		snapshottest.Must(t, err)
		if math.Abs(a.Value-b.Value) > 1e-12 {
			t.Errorf("%s: %g in the version, %g in the model", name, b.Value, a.Value)
		}
	}
	if len(c.Tables[0].Names) != len(x.rows) {
		t.Errorf("the version has %d rows, want %d", len(c.Tables[0].Names), len(x.rows))
	}
	if said := x.model.Known("item", c.Tables[0].Names[0]); said["in_stock"] == nil {
		t.Errorf("known of %s: %v", c.Tables[0].Names[0], said)
	}
}

// TestTablesFile: the file gives the tables again; cut off or with a changed byte it is refused or other valid tables;
// and the digest of the payload depends on it.
func TestTablesFile(t *testing.T) {
	x := newTabled(t, 3, 40)
	c := x.model.Contents()
	b, err := format.EncodeTables(c.Tables)
	snapshottest.Must(t, err)
	tables, err := format.DecodeTables(b)
	snapshottest.Must(t, err, format.ValidateTables(tables, &c.Schema))
	again, err := format.EncodeTables(tables)
	if snapshottest.Must(t, err); !bytes.Equal(again, b) {
		t.Error("another file")
	}
	for n := range b {
		if _, err := format.DecodeTables(b[:n]); !errors.Is(err, disk.ErrFormat) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
		other := bytes.Clone(b)
		other[n] ^= byte(1 << x.rng.IntN(8))
		if tables, err := format.DecodeTables(other); err == nil {
			_ = format.ValidateTables(tables, &c.Schema) // must not panic
		}
	}
	want, err := format.PayloadDigest(c)
	snapshottest.Must(t, err)
	without := *c
	without.Tables = nil
	got, err := format.PayloadDigest(&without)
	if snapshottest.Must(t, err); got == want {
		t.Error("the digest does not depend on the tables")
	}
	for _, break_ := range []func(t *format.Table){
		func(t *format.Table) { t.Of = "nobody" },
		func(t *format.Table) { t.Names[0], t.Names[1] = t.Names[1], t.Names[0] },
		func(t *format.Table) { t.Categorical[0].At[0] = 99 },
		func(t *format.Table) { t.Categorical[0].Field = "user2" },
		func(t *format.Table) { t.Multi[0].Ends[0] = 1 << 20 },
		func(t *format.Table) { t.Numeric[0].Values[0] = math.Inf(1) },
	} {
		tables, err := format.DecodeTables(b)
		snapshottest.Must(t, err)
		break_(tables[0])
		if format.ValidateTables(tables, &c.Schema) == nil {
			t.Error("broken tables are taken")
		}
	}
}

// TestWhereRefused: what cannot be asked for is ErrInput.
func TestWhereRefused(t *testing.T) {
	x := newTabled(t, 4, 40)
	one, nan := 1.0, math.NaN()
	for _, w := range []format.Condition{{Field: "genre"}, {Field: "genre", Min: &one},
		{Field: "price", Any: []string{"1"}}, {Field: "user", Any: []string{"u1"}}, {Field: "price", Min: &nan}} {
		q := &format.Query{Input: format.Input{Categorical: []string{"u1", "", "", ""}}, Over: "item", K: 3,
			Where: []format.Condition{w}}
		if _, err := x.model.TopK(nil, q, new(Scratch)); !errors.Is(err, disk.ErrInput) {
			t.Errorf("%+v: %v", w, err)
		}
	}
	for _, bad := range []any{nil, 1.5, map[string]any{"least": 1}, map[string]any{"min": "x"}, []any{1.5}} {
		if _, err := where.FromMap(map[string]any{"genre": bad}); !errors.Is(err, disk.ErrInput) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	list, err := where.FromMap(
		map[string]any{"in_stock": true, "genre": []any{"a", "b"}, "price": map[string]any{"min": 2.0}})
	if err != nil || len(list) != 3 || list[1].Any[0] != "true" || *list[2].Min != 2 {
		t.Errorf("%+v: %v", list, err)
	}
}

// TestFiltersAreNotUnseen: what a table says in columns that nothing has learned is no unseen name; a new name of the
// others is.
func TestFiltersAreNotUnseen(t *testing.T) {
	x := newTabled(t, 3, 60)
	c := x.model.Contents()
	for _, f := range []int{3, 4} { // in_stock and tags
		c.NumFeatures -= len(c.Vocabulary[f])
		c.Vocabulary[f] = nil
	}
	c.Linear, c.Basis = c.Linear[:c.NumFeatures], c.Basis[:c.NumBasis*c.NumFeatures]
	m, err := NewModel(c)
	snapshottest.Must(t, err)
	seen := 0
	for name, row := range x.rows {
		in := &format.Input{Categorical: []string{"u1", name, "", ""}}
		var want []string
		if _, ok := m.Column(1, name); !ok {
			want = append(want, "item="+name)
		}
		if genre := row.Categorical[0]; genre == "g3" { // which has no column
			want = append(want, "genre=g3")
		}
		p, err := m.Predict(in)
		snapshottest.Must(t, err)
		n := m.Score(make([]float64, 1), in, new(Scratch))
		if !slices.Equal(p.Unseen, want) || n != len(want) {
			t.Errorf("%s with %+v: unseen %q and %d, want %q", name, row, p.Unseen, n, want)
		}
		if len(want) == 0 {
			seen++
		}
	}
	if seen == 0 {
		t.Error("each event has an unseen name")
	}
}
