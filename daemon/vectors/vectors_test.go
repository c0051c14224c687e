package vectors

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// server runs PostgreSQL with pgvector, which the Python package pgserver has.
const server = `import pgserver, sys
s = pgserver.get_server(sys.argv[1])
print(s.get_uri(), flush=True)
sys.stdin.read()
s.cleanup()`

// postgres returns the URL of a database with pgvector, or skips the test.
func postgres(t *testing.T) string {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import pgserver").CombinedOutput(); err != nil {
		t.Skipf("not checked: python3 with pgserver, which has PostgreSQL and pgvector, is needed (%v): %.200s", err, out)
	}
	dir, err := os.MkdirTemp("", "pg") // short, for the socket, and not of the owner alone
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	cmd := exec.Command("python3", "-c", server, dir+"/data")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		must(t, in.Close())
		must(t, cmd.Wait())
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(url)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// catalogue is a model of users and items, of which a table says a genre, with some items that it alone knows.
type catalogue struct {
	rng   *rand.Rand
	store *publish.Store
	dir   string
}

const users, items, known = 500, 20_000, 20_500

// publish writes a version with k basis vectors.
func (x *catalogue) publish(t *testing.T, k int) *snapshot.Model {
	t.Helper()
	c := &format.Contents{
		Schema: format.Schema{Task: format.Regression, Label: "y", Categorical: []string{"user", "item", "genre"},
			Numeric:  []format.NumericField{{Name: "hour", Center: 12, Scale: 12, Clip: 1}},
			Optional: []string{"genre", "hour"}},
		Kernel: format.ANOVA, Link: format.Identity, NumOutputs: 1, NumBasis: k, Vocabulary: make([][]string, 3),
		Meta: format.Meta{Created: time.Now()}, Bias: []float64{3},
		Golden: []format.Golden{{Input: format.Input{Categorical: []string{"u1", "i1", ""}}}},
	}
	var rows []*format.TableRow
	for i := range known {
		if i < users {
			c.Vocabulary[0] = append(c.Vocabulary[0], fmt.Sprint("u", i))
		}
		name := fmt.Sprint("i", i)
		if i < items {
			c.Vocabulary[1] = append(c.Vocabulary[1], name)
		}
		rows = append(rows, &format.TableRow{Name: name, Categorical: []string{fmt.Sprint("g", i%7)}})
	}
	slices.SortFunc(rows, func(a, b *format.TableRow) int { return strings.Compare(a.Name, b.Name) })
	c.Vocabulary[2] = []string{"g0", "g1", "g2", "g3", "g4"}
	c.NumFeatures = users + items + 5 + 1
	c.Tables = []*format.Table{format.NewTable("items", "item", []string{"genre"}, nil, nil, rows)}
	for _, of := range []struct {
		to *[]float64
		n  int
	}{{&c.Basis, k * c.NumFeatures}, {&c.Linear, c.NumFeatures}, {&c.Weights, k}} {
		for range of.n {
			*of.to = append(*of.to, x.rng.NormFloat64())
		}
	}
	manifest, err := x.store.Publish(t.Context(), "ratings", c)
	must(t, err)
	m, err := snapshot.Open(x.dir, "ratings", snapshot.Selector{Version: manifest.Version})
	must(t, err)
	return m
}

// delta changes rows, adds an item, and moves one of the table: in or out.
func (x *catalogue) delta(t *testing.T, m *snapshot.Model, n int) *snapshot.Model {
	t.Helper()
	at, k := m.Position(), m.Contents().NumBasis
	d := &format.Delta{Model: "ratings", Base: at.Version, BaseDigest: m.Manifest().Digest, Sequence: at.Sequence + 1,
		Previous: at.Digest, Created: time.Now(),
		Added: []format.AddedName{{Field: 1, Name: fmt.Sprint("i", items+n)}},
		TableRows: []*format.TableRow{{Name: fmt.Sprint("i", known-1-n), Removed: true}, {Name: fmt.Sprint("new", n),
			Categorical: []string{"g1"}}}}
	slices.SortFunc(d.TableRows, func(a, b *format.TableRow) int { return strings.Compare(a.Name, b.Name) })
	for j := range 200 {
		d.Columns = append(d.Columns, int32(97*j+n))
	}
	d.Columns = append(d.Columns, int32(m.NumColumns()))
	for range d.Columns {
		for range k {
			d.Basis = append(d.Basis, x.rng.NormFloat64())
		}
		d.Linear = append(d.Linear, x.rng.NormFloat64())
	}
	frame, err := d.Encode(m.Shape(), nil)
	must(t, err)
	read, err := format.DecodeDelta(frame, m.Shape(), nil)
	must(t, err)
	next, err := m.Apply(read)
	must(t, err)
	return next
}

// TestVectorsAreTopLists: PostgreSQL's ten largest inner products are those of TopK, after each of 50 deltas within two
// seconds, after another version with more numbers and back, and after the server has thrown the writer out. A vector
// of another version is refused.
func TestVectorsAreTopLists(t *testing.T) {
	url := postgres(t)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(context.Background())
	x := &catalogue{rng: rand.New(rand.NewPCG(5, 4)), dir: t.TempDir()}
	x.store = publish.NewStore(x.dir)
	var now atomic.Pointer[snapshot.Model]
	var failures atomic.Int64
	w, err := New(Options{Model: "ratings", URL: url, Table: "order", Over: "item", Log: slog.New(slog.DiscardHandler),
		OnResult: func(_ int64, err error) {
			if err != nil {
				failures.Add(1)
				t.Log(err)
			}
		}})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx, now.Load) })
	defer running.Wait()
	defer cancel()

	slowest, equal, asked := time.Duration(0), 0, 0
	serve := func(m *snapshot.Model) time.Duration {
		began, at := time.Now(), m.Position()
		now.Store(m)
		for time.Since(began) < 30*time.Second {
			var version, sequence int64
			err := conn.QueryRow(t.Context(), "SELECT version, sequence FROM refitd_vectors").Scan(&version, &sequence)
			if err == nil && version == at.Version && sequence == at.Sequence {
				return time.Since(began)
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("version %d, delta %d is not written: %s", at.Version, at.Sequence, w.Trouble())
		return 0
	}
	ask := func(m *snapshot.Model, n int) {
		v, err := m.Vectors("item", "")
		must(t, err)
		for range n {
			in := snapshot.Input{Categorical: []string{fmt.Sprint("u", x.rng.IntN(users+20)), "", ""},
				Numeric: []float64{x.rng.Float64() * 24}}
			query, offset, err := v.Query(nil, &in, new(snapshot.Scratch))
			must(t, err)
			rows, err := conn.Query(t.Context(), "SELECT name, score FROM order_top($1, $2)", query, m.Position().Version)
			must(t, err)
			type found struct {
				Name  string
				Score float64
			}
			got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[found])
			must(t, err)
			want, err := m.TopK(nil, &snapshot.Query{Input: in, Over: "item", K: 10}, new(snapshot.Scratch))
			must(t, err)
			if asked++; slices.EqualFunc(got, want, func(a found, b snapshot.Item) bool {
				return a.Name == b.Name && math.Abs(a.Score+offset-b.Value) <= 1e-12*(1+math.Abs(b.Value))
			}) {
				equal++
			} else {
				t.Errorf("%v, want %v", got, want)
			}
		}
	}
	first := x.publish(t, 20)
	t.Logf("a version of %d names: %v", known, serve(first))
	m := first
	for n := range 50 {
		m = x.delta(t, m, n)
		slowest = max(slowest, serve(m))
		ask(m, 20)
	}
	t.Logf("%d of %d top tens are those of TopK; the slowest delta took %v", equal, asked, slowest)
	if slowest > 2*time.Second || asked != 1000 || failures.Load() != 0 {
		t.Errorf("%v, %d asked, %d failures", slowest, asked, failures.Load())
	}

	second := x.publish(t, 23)
	serve(second)
	ask(second, 5)
	if _, err := conn.Exec(t.Context(), "SELECT order_top($1, 1)", make([]float64, 24)); err == nil ||
		!strings.Contains(err.Error(), "of version 1 with 24 numbers, the table order has version 2") {
		t.Errorf("a vector of version 1: %v", err)
	}
	_, err = conn.Exec(t.Context(),
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'refitd'")
	must(t, err)
	serve(m) // as after a rollback, with vectors that are shorter than the table's
	ask(m, 5)

	// Another process of the same model leaves no row of its version behind.
	other, err := New(w.Options)
	must(t, err)
	_, err = other.step(t.Context(), second)
	must(t, err)
	other.disconnect()
	m = x.delta(t, m, 60)
	serve(m)
	ask(m, 5)

	// Whoever holds the lock of another table holds nothing up; who holds the rows does, and the writer says so.
	_, err = conn.Exec(t.Context(), "SELECT pg_advisory_lock(hashtextextended('refitd_vectors other', 0))")
	must(t, err)
	serve(x.delta(t, second, 0))
	cancel()
	running.Wait()
	w.limit = 300 * time.Millisecond
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	held, err := conn.Begin(t.Context())
	must(t, err)
	_, err = held.Exec(t.Context(), `LOCK TABLE "order"`)
	must(t, err)
	now.Store(m)
	running.Go(func() { w.Run(ctx, now.Load) })
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(w.Trouble(), "does not move on"); {
		if time.Now().After(deadline) {
			t.Fatalf("trouble %q", w.Trouble())
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(t, held.Rollback(t.Context()))
	serve(m)
}

// TestNoDatabase: where nobody answers Run says so once, tries again, and ends when it is asked to. A model without
// vectors says why.
func TestNoDatabase(t *testing.T) {
	x := &catalogue{rng: rand.New(rand.NewPCG(1, 2)), dir: t.TempDir()}
	x.store = publish.NewStore(x.dir)
	m := x.publish(t, 2)
	for over, want := range map[string]string{"item": "connect", "genre": "a field that another table says"} {
		var log strings.Builder
		var passwords atomic.Int64
		results := make(chan error, 100)
		w, err := New(Options{Model: "ratings", URL: "postgres://nobody@127.0.0.1:1/none?sslmode=disable", Table: "r",
			Password: func() (string, error) { return fmt.Sprint("hunter", passwords.Add(1)), nil },
			Over:     over, Log: slog.New(slog.NewTextHandler(&log, nil)),
			OnResult: func(_ int64, err error) { results <- err }})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx, func() *snapshot.Model { return m }) })
		for range map[string]int{"item": 2, "genre": 1}[over] {
			if err := <-results; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", over, err)
			}
		}
		time.Sleep(2 * lookEvery)
		if !strings.Contains(w.Trouble(), want) {
			t.Errorf("%s: trouble %q", over, w.Trouble())
		}
		cancel()
		running.Wait()
		if w.Trouble() != "" {
			t.Errorf("trouble %q of a writer that does not run", w.Trouble())
		}
		if text := log.String(); strings.Count(text, "level=ERROR") != 1 || strings.Contains(text, "hunter") {
			t.Errorf("log:\n%s", text)
		}
		if over == "item" && passwords.Load() < 2 {
			t.Error("the password is not asked for again")
		}
		if over == "genre" && len(results) > 0 {
			t.Errorf("a model without vectors was tried %d times more", len(results))
		}
	}
}

// TestNamesThatFit: a name that PostgreSQL has no room for is left out, as it would keep out all others.
func TestNamesThatFit(t *testing.T) {
	for name, want := range map[string]bool{"i1": true, "a\"';--": true, strings.Repeat("x", maxNameBytes): true,
		strings.Repeat("x", maxNameBytes+1): false, "a\x00": false, "\xff": false} {
		if fits(name) != want {
			t.Errorf("%.20q fits: %t", name, !want)
		}
	}
}
