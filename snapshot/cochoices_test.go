package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/rowmath"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
)

// coChosen returns contents of choices of items by users, with co-choices.
func coChosen(r *rand.Rand, users, items, k int) *format.Contents {
	c := &format.Contents{
		Schema: format.Schema{Task: format.Binary, Label: "chosen", Categorical: []string{"user", "item"}},
		Kernel: format.ANOVA, Link: format.Logistic, NumFeatures: users + items, NumOutputs: 1, NumBasis: k,
		Bias: []float64{-1}, Vocabulary: make([][]string, 2),
		Meta: format.Meta{Created: time.UnixMilli(1_700_000_000_000), Kind: "refit"},
	}
	normal := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return v
	}
	c.Basis, c.Weights, c.Linear = normal(c.NumFeatures*k), normal(k), normal(c.NumFeatures)
	for f, n := range []int{users, items} {
		for i := range n {
			c.Vocabulary[f] = append(c.Vocabulary[f], fmt.Sprintf("%c%d", "ui"[f], i))
		}
	}
	x := &format.CoChoices{Over: "item", By: "user", HalfLife: 3, Weight: 0.5, Scale: 0.75}
	for range items - 1 { // the last item has none
		var list []format.Neighbour
		for range r.IntN(6) {
			list = append(list, format.Neighbour{Place: int32(r.IntN(items)), Lift: float32(20 * r.Float64())})
		}
		x.Neighbours = append(x.Neighbours, list)
	}
	for range users / 2 {
		var list []int32
		for range r.IntN(12) {
			list = append(list, int32(r.IntN(items+1))-1)
		}
		x.Recent = append(x.Recent, list)
	}
	c.CoChoices = x
	c.Golden = []format.Golden{{Input: Input{Categorical: []string{"u0", "i0"}}}}
	return c
}

// withCoChoices gives contents with the fields user and item co-choices.
func withCoChoices(c *format.Contents) *format.Contents {
	user, item := slices.Index(c.Schema.Categorical, "user"), slices.Index(c.Schema.Categorical, "item")
	x := &format.CoChoices{Over: "item", By: "user", HalfLife: 1.5, Weight: 0.25, Scale: 0.5}
	for i := range c.Vocabulary[item] {
		last := int32(len(c.Vocabulary[item]) - 1)
		x.Neighbours = append(x.Neighbours, []format.Neighbour{{Place: 0, Lift: float32(9 + i)}, {Place: last, Lift: 2.5}})
	}
	for i := range c.Vocabulary[user] {
		x.Recent = append(x.Recent, []int32{0, -1, int32(i % len(c.Vocabulary[item]))})
	}
	c.CoChoices = x
	return c
}

// slowList is TopK by definition: the output of Score and what co-choices add, for each name, sorted.
func slowList(m *Model, user string, recent []int32, k int, exclude []string) (out []Item) {
	x := m.Contents().CoChoices
	lifts := make(map[int32]float64)
	for i, place := range recent {
		if place < 0 || int(place) >= len(x.Neighbours) {
			continue
		}
		for _, n := range x.Neighbours[place] {
			lifts[n.Place] += math.Exp2(-float64(len(recent)-1-i)/x.HalfLife) * float64(n.Lift)
		}
	}
	var s Scratch
	o := make([]float64, 1)
	for i, name := range m.Contents().Vocabulary[1] {
		if slices.Contains(exclude, name) {
			continue
		}
		m.Score(o, &Input{Categorical: []string{user, name}}, &s)
		out = append(out, Item{Name: name, Value: rowmath.Sigmoid(o[0] + x.Scale*math.Log1p(x.Weight*lifts[int32(i)]))})
	}
	slices.SortStableFunc(out, func(a, b Item) int { return cmp.Compare(b.Value, a.Value) })
	return out[:min(k, len(out))]
}

func sameList(t *testing.T, what string, got, want []Item) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i].Name == want[i].Name && math.Abs(got[i].Value-want[i].Value) < 1e-9
	}
	if !same {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// TestCoChoicesInLists: lists are those of the definition, by the choices that the version knows and by a history, with
// and without fold-in, also after a version was written and read.
func TestCoChoicesInLists(t *testing.T) {
	r := rand.New(rand.NewPCG(50, 1))
	for _, size := range []struct{ items, k int }{{30, 0}, {300, 2}, {9000, 3}} {
		c := coChosen(r, 20, size.items, size.k)
		dir := t.TempDir()
		store := publish.NewStore(dir)
		if _, err := store.Publish(t.Context(), "m", c); err != nil {
			t.Fatal(err)
		}
		m, err := Open(dir, "m", Selector{Version: 1})
		if err != nil {
			t.Fatal(err)
		}
		var s Scratch
		for trial := range 40 {
			u := r.IntN(21) // the last is unknown
			user, k := fmt.Sprintf("u%d", u), 1+r.IntN(12)
			var recent []int32
			if u < len(c.CoChoices.Recent) {
				recent = c.CoChoices.Recent[u]
			}
			exclude := []string{"i1", fmt.Sprintf("i%d", r.IntN(size.items))}
			q := &Query{Input: Input{Categorical: []string{user, ""}}, Over: "item", K: k, Exclude: exclude}
			got, err := m.TopK(nil, q, &s)
			if err != nil {
				t.Fatal(err)
			}
			sameList(t, fmt.Sprintf("%d items, trial %d", size.items, trial), got, slowList(m, user, recent, k, exclude))

			var history []LabelledEvent
			recent = nil
			for range 1 + r.IntN(9) {
				item, label := r.IntN(size.items), float64(r.IntN(2))
				history = append(history, LabelledEvent{
					Input: Input{Categorical: []string{user, fmt.Sprintf("i%d", item)}}, Label: label})
				if label > 0 {
					recent = append(recent, int32(item))
				}
			}
			if recent == nil && u < len(c.CoChoices.Recent) {
				recent = c.CoChoices.Recent[u]
			}
			over, err := m.Fold(history[:len(history)-1])
			if err == nil {
				over, err = over.Learn(&history[len(history)-1])
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err = over.TopK(nil, q, &s); err != nil {
				t.Fatal(err)
			}
			sameList(t, fmt.Sprintf("%d items, history %d", size.items, trial), got, slowList(m, user, recent, k, exclude))
		}
	}
}

// TestCoChoicesInScores: neither scores nor the digest of what is scored know of co-choices, and versions without them
// have no file of them.
func TestCoChoicesInScores(t *testing.T) {
	c := coChosen(rand.New(rand.NewPCG(50, 2)), 10, 40, 2)
	with, err := format.PayloadDigest(c)
	if err != nil {
		t.Fatal(err)
	}
	without := *c
	without.CoChoices = nil
	if digest, err := format.PayloadDigest(&without); err != nil || digest != with {
		t.Errorf("payload digest %s without co-choices, %s with them: %v", digest, with, err)
	}
	store := publish.NewStore(t.TempDir())
	for _, contents := range []*format.Contents{c, &without} {
		manifest, err := store.Publish(t.Context(), "m", contents)
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, f := range manifest.ReadFiles() {
			names += " " + f.Name
		}
		if strings.Contains(names, format.CoChoicesFile) != (contents.CoChoices != nil) ||
			(manifest.CoChoices != nil) != (contents.CoChoices != nil) {
			t.Errorf("version %d has files%s", manifest.Version, names)
		}
	}
}

// TestDamagedCoChoices: a reader refuses what is not the file that was published, and no file makes it panic.
func TestDamagedCoChoices(t *testing.T) {
	c := coChosen(rand.New(rand.NewPCG(50, 3)), 8, 25, 1)
	b, err := c.CoChoices.Encode()
	if err != nil {
		t.Fatal(err)
	}
	x, err := format.DecodeCoChoices(b)
	if err != nil || x.Validate(c) != nil {
		t.Fatal(err, x.Validate(c))
	}
	for n := range b {
		if _, err := format.DecodeCoChoices(b[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("the first %d of %d bytes: %v", n, len(b), err)
		}
	}
	newer := []byte(strings.Replace(string(b), `"version":1`, `"version":2`, 1))
	if _, err := format.DecodeCoChoices(newer); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), "newer build") {
		t.Errorf("a newer version: %v", err)
	}
	for name, damage := range map[string]func(*format.CoChoices){
		"place": func(x *format.CoChoices) { x.Neighbours[0] = []format.Neighbour{{Place: 25, Lift: 1}} },
		"lift": func(x *format.CoChoices) {
			x.Neighbours[0] = []format.Neighbour{{Place: 1, Lift: float32(math.NaN())}}
		},
		"choice":    func(x *format.CoChoices) { x.Recent[0] = []int32{25} },
		"names":     func(x *format.CoChoices) { x.Neighbours = make([][]format.Neighbour, 26) },
		"entities":  func(x *format.CoChoices) { x.Recent = make([][]int32, 9) },
		"half-life": func(x *format.CoChoices) { x.HalfLife = 0 },
		"weight":    func(x *format.CoChoices) { x.Weight = math.Inf(1) },
		"scale":     func(x *format.CoChoices) { x.Scale = -1 },
		"field":     func(x *format.CoChoices) { x.By = "item" },
		"too many":  func(x *format.CoChoices) { x.Recent[0] = make([]int32, format.MaxRecent+1) },
	} {
		damaged := *x
		damaged.Neighbours, damaged.Recent = slices.Clone(x.Neighbours), slices.Clone(x.Recent)
		damage(&damaged)
		contents := *c
		contents.CoChoices = &damaged
		if _, err := scorer.NewModel(&contents); !errors.Is(err, ErrContents) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
