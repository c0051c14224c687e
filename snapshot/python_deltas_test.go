package snapshot

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

// expectedChain is a version with deltas, and what it then is; or the error of the first that is refused.
type expectedChain struct {
	Name     string          `json:"name"`
	Store    string          `json:"store"`
	Model    string          `json:"model"`
	Keys     []string        `json:"keys"`
	Error    string          `json:"error"`
	Sequence int64           `json:"sequence"`
	Digest   string          `json:"digest"`  // of the last delta
	Payload  string          `json:"payload"` // of the model's contents
	Events   []expectedScore `json:"events"`
	Tops     []expectedTop   `json:"tops"`
	Folds    []expectedFold  `json:"folds"`
}

// The package in python takes deltas as the library does, and refuses the same.
func TestPythonTakesDeltas(t *testing.T) {
	snapshottest.NeedPython(t, "numpy")
	list := append(expectedChains(t), refusedChains(t)...)
	path := filepath.Join(t.TempDir(), "chains.json")
	b, err := json.Marshal(list)
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(path, b, 0o644))
	snapshottest.Python(t, "numpy", []string{"REFITD_CHAINS=" + path}, "-W", "error", "-m", "unittest",
		"tests.test_deltas", "tests.test_watch")
}

// The package asks a daemon as HTTPSource does.
func TestPythonAsksOverHTTP(t *testing.T) {
	store, dir, _ := publishSigned(t, 1)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	chain, m := openChain(t, store, dir, 1)
	grow(t, chain, m, 9, 1)
	var polls atomic.Int64
	snapshottest.Python(t, "numpy, cryptography",
		[]string{"REFITD_URL=" + serve(t, dir, &polls).URL, "REFITD_KEY=" + snapshottest.KeyFile(t, t.TempDir(), 1)},
		"-W", "error", "-m", "unittest", "tests.test_http")
	if !t.Skipped() && polls.Load() < 10 {
		t.Errorf("asked %d times for the alias", polls.Load())
	}
}

// expectedChains publishes deltas after versions of every kind.
func expectedChains(t *testing.T) (list []expectedChain) {
	t.Helper()
	dir, shapes := t.TempDir(), snapshottest.ChainShapes()
	shapes["catalogue"] = catalogue()
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		c, rng, store := shapes[name], rand.New(rand.NewPCG(7, 8)), publish.NewStore(dir)
		for i := range c.Golden {
			c.Golden[i].Outputs = nil
		}
		e := expectedChain{Name: name, Store: dir, Model: strings.ReplaceAll(strings.ToLower(name), " ", "-")}
		_, err := store.Publish(t.Context(), e.Model, c)
		snapshottest.Must(t, err)
		chain, err := store.OpenChain(t.Context(), e.Model, 1)
		snapshottest.Must(t, err)
		m, err := Open(dir, e.Model, verify.Selector{Version: 1})
		snapshottest.Must(t, err)
		for range 12 {
			d := snapshottest.SomeDelta(rng, m)
			d.TableRows = changedRows(rng, c.Tables)
			frame, err := d.Encode(m.Shape(), nil)
			snapshottest.Must(t, err)
			snapshottest.Must(t, chain.Append(t.Context(), frame))
			m, err = m.Apply(d)
			snapshottest.Must(t, err)
		}
		e.state(t, m)
		for _, in := range snapshottest.ChainInputs(rng, m.Contents()) {
			e.Events = append(e.Events, scoreOf(m.Schema(), m.Schema().ToMap(&in), m.Predict))
		}
		top := expectedTop{
			Event:   map[string]any{"user": "u1", "age": 30.0, "tags": []string{"a"}},
			K:       4,
			Exclude: []string{"i1"},
		}
		if len(c.Schema.Classes) > 0 {
			top.Class = c.Schema.Classes[1]
		}
		e.Tops = []expectedTop{top.of(t, m.Schema(), m.TopK)}
		if len(c.Tables) > 0 {
			for _, top.Where = range conditions(c.Tables) {
				top.K = 1 + rng.IntN(12)
				e.Tops = append(e.Tops, top.of(t, m.Schema(), m.TopK))
			}
		}
		if c.FoldIn != nil {
			e.Folds = []expectedFold{foldOf(t, m, "", append(snapshottest.HistoryOf(c, "u1", 6), snapshottest.HistoryOf(c, "u9",
				5)...))}
		}
		list = append(list, e)
	}
	return list
}

func (e *expectedChain) state(t *testing.T, m *scorer.Model) {
	t.Helper()
	var err error
	e.Sequence, e.Digest = m.Position().Sequence, m.Position().Digest
	e.Payload, err = format.PayloadDigest(m.Contents())
	snapshottest.Must(t, err)
}

// refusedChains damages a signed chain and asks the library.
func refusedChains(t *testing.T) (list []expectedChain) {
	t.Helper()
	store, dir, keys := publishSigned(t, 1)
	chain, m := openChain(t, store, dir, 1)
	grow(t, chain, m, 9, 1)
	file := snapshottest.KeyFile(t, t.TempDir(), 1)
	segment := filepath.Join("m", "1", disk.DeltasDir, disk.SegmentName(1))
	whole, err := os.ReadFile(filepath.Join(dir, segment))
	snapshottest.Must(t, err)
	var frames [][]byte
	for r := bytes.NewReader(whole); r.Len() > 0; {
		frame, err := format.ReadFrame(r)
		snapshottest.Must(t, err)
		frames = append(frames, frame)
	}
	ask := func(name string, content []byte, until int64) {
		copied := t.TempDir()
		snapshottest.Must(t, os.CopyFS(copied, os.DirFS(dir)))
		snapshottest.Must(t, os.WriteFile(filepath.Join(copied, segment), content, 0o644))
		for _, trusted := range []format.Keys{nil, keys} {
			e := expectedChain{Name: name, Store: copied, Model: "m"}
			if trusted != nil {
				e.Keys = []string{file}
			}
			base, err := verify.Trust{Keys: trusted}.Open(copied, "m", verify.Selector{Version: 1})
			snapshottest.Must(t, err)
			got, err := readDeltas(t.Context(), DirSource{copied, often}, base, until, trusted)
			if e.Error = pythonError(err); err == nil {
				e.state(t, got)
			}
			list = append(list, e)
		}
	}
	ask("whole", whole, 9)
	ask("cut off", whole[:len(whole)-5], 8)
	for _, at := range []int{0, 9, 20, 60, len(frames[0]) - 100, len(frames[0]) - 30, len(frames[0]) + 70} {
		b := bytes.Clone(whole)
		b[at] ^= 1
		ask("a bit is flipped", b, 9)
	}
	ask("one is left out", bytes.Join(slices.Delete(slices.Clone(frames), 3, 4), nil), 9)
	ask("out of order", bytes.Join([][]byte{frames[1], frames[0]}, nil), 9)
	ask("twice", bytes.Join([][]byte{frames[0], frames[0]}, nil), 2)
	other, elsewhere, _ := publishSigned(t, 2)
	foreign, m2 := openChain(t, other, elsewhere, 2)
	grow(t, foreign, m2, 1, 1)
	b, err := os.ReadFile(filepath.Join(elsewhere, "m", "2", disk.DeltasDir, disk.SegmentName(1)))
	snapshottest.Must(t, err)
	ask("of another chain", b, 1)
	for name, change := range map[string]func(d *format.Delta){
		"nothing changed":  func(*format.Delta) {},
		"a column too far": func(d *format.Delta) { d.Columns[len(d.Columns)-1] = 999 },
		"a name that is there": func(d *format.Delta) {
			d.Added, d.Columns[1] = []format.AddedName{{Field: 0, Name: "u1"}}, int32(m.NumColumns())
		},
		"another first one": func(d *format.Delta) { d.Previous = "sha256:0" },
	} {
		frame, _, err := snapshottest.DeltaAfter(m, 1, nil)
		snapshottest.Must(t, err)
		d, err := format.DecodeDelta(frame, m.Shape(), nil)
		snapshottest.Must(t, err)
		change(d)
		frame, err = d.Encode(m.Shape(), nil) // unsigned
		snapshottest.Must(t, err)
		ask(name, frame, 1)
	}
	return list
}
