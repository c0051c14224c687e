package reproduce_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/refit/task"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/daemon/ingest"
	publishing "github.com/refitd/refitd/daemon/publish"
	"github.com/refitd/refitd/daemon/reproduce"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/publish"
)

func ratings() *config.Model {
	m := config.DefaultModel()
	m.Name = "ratings"
	m.Schema = config.Schema{
		Task:        "ordinal",
		Label:       "rating",
		Levels:      5,
		TimeUnit:    "ms",
		Categorical: []string{"user", "item"},
	}
	m.Train.MaxBasis, m.Publish.KeepSample, m.Publish.Keep, m.Publish.Gate.MinRows = 3, true, 2, 20
	m.Resolve()
	return &m
}

// published trains and publishes n refits and an update, each on more events, and returns the store.
func published(t *testing.T, m *config.Model, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	c, err := cycle.New(m, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	versions, err := publishing.New(m, dir, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	var rowList [][]byte
	for round := range n {
		for i := range 300 {
			u, v := (round*40+i*7)%50, (i*5+i/50)%20
			ev := event.Event{
				Label:       float64(3 + (u%5-2)*(v%3-1)/2),
				Weight:      1,
				Time:        int64(i),
				Categorical: []string{fmt.Sprint("u", u), fmt.Sprint("i", v)},
			}
			if i == 299 {
				ev.Categorical[0] = fmt.Sprint("last", round)
			}
			rowList = append(rowList, rows.AppendEvent(nil, &ev))
			c.Observe(&ev, true, rows.Position{Topic: "t", Offset: int64(len(rowList))}, rowList[len(rowList)-1], nil)
		}
		ch, err := c.Refit(t.Context(),
			&encode.Sample{Train: rowList[50:], Select: rowList[:50], Digest: fmt.Sprint(round)})
		if err != nil {
			t.Fatal(err)
		}
		if err := versions.Publish(t.Context(), ch); err != nil {
			t.Fatal(err)
		}
		if ch.Kept != nil {
			t.Error("the record stays in memory")
		}
		c.Install(ch)
	}
	update := c.Update()
	update.Version.Decision, update.Version.Reason = "promoted", "fold-in"
	if err := versions.Publish(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, dir string, version int64) *snapshot.Model {
	t.Helper()
	m, err := snapshot.Open(dir, "ratings", snapshot.Selector{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestVersionsAreReproduced(t *testing.T) {
	for _, tensors := range []string{"f64", "f32"} {
		t.Run(tensors, func(t *testing.T) { reproduced(t, tensors) })
	}
}

func reproduced(t *testing.T, tensors string) {
	m := ratings()
	m.Publish.Keep, m.Publish.Tensors = 10, tensors
	dir := published(t, m, 2)
	for version := range int64(2) {
		x := open(t, dir, version+1)
		if got := strings.ToLower(x.Contents().Tensors); got != tensors {
			t.Fatalf("version %d has tensors in %s", version+1, got)
		}
		out, err := reproduce.Version(t.Context(), dir, x, 1)
		if err != nil || out.Got != out.Want || len(out.Differences) > 0 {
			t.Fatalf("version %d: %+v, error %v", version+1, out, err)
		}
		if warm := x.Manifest().Warm; warm != (version == 1) {
			t.Errorf("version %d: warm %t", version+1, warm)
		}
	}
	if _, err := reproduce.Version(t.Context(), dir, open(t, dir, 3), 1); !errors.Is(err, reproduce.ErrUpdate) ||
		!reproduce.IsRefusal(err) ||
		!strings.Contains(err.Error(), "folded in") {
		t.Errorf("an update: error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := reproduce.Version(ctx, dir, open(t, dir, 1), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %+v, error %v", out, err)
	}
}

// What differs is said: here the sample of one version under the manifest of another.
func TestDifferencesAreNamed(t *testing.T) {
	m := ratings()
	m.Publish.Keep = 10
	dir := published(t, m, 2)
	first, second := open(t, dir, 1).Manifest(), open(t, dir, 2)
	contents := second.Contents()
	contents.Meta.KeptSample = first.KeptSample
	forged, err := publish.NewStore(dir).Publish(t.Context(), "ratings", contents)
	if err != nil {
		t.Fatal(err)
	}
	out, err := reproduce.Version(t.Context(), dir, open(t, dir, forged.Version), 1)
	if err != nil || out.Got == out.Want || out.Got != first.PayloadDigest {
		t.Fatalf("%+v, error %v", out, err)
	}
	text := strings.Join(out.Differences, "\n")
	for _, want := range []string{"sample_digest is 0, the version has 1", "objective is"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}

func TestKeptSamplesAreVerifiedAndPruned(t *testing.T) {
	m := ratings()
	dir := published(t, m, 3) // keep is 2: the update and the last refit; the others go, but for those with an alias
	names, err := filepath.Glob(filepath.Join(dir, "ratings", "samples", "*"))
	if err != nil {
		t.Fatal(err)
	}
	store := publish.NewStore(dir)
	versions, err := store.Versions("ratings")
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, v := range versions {
		manifest, err := store.Manifest("ratings", v)
		if err != nil {
			t.Fatal(err)
		}
		if manifest.KeptSample != "" {
			kept++
		}
	}
	if len(names) != kept || kept == 0 || kept > 2 {
		t.Fatalf("%d kept samples for %d refits of versions %v", len(names), kept, versions)
	}
	manifest := open(t, dir, 3).Manifest()
	path := filepath.Join(dir, "ratings", "samples", strings.TrimPrefix(manifest.KeptSample, "sha256:")+".zst")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := reproduce.Open(dir, &manifest); !errors.Is(err, reproduce.ErrDigest) {
		t.Errorf("an altered sample: error %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := reproduce.Open(dir, &manifest); !errors.Is(err, task.ErrNotKept) {
		t.Errorf("a removed sample: error %v", err)
	}
	manifest.KeptSample = "sha256:../../x"
	if _, err := reproduce.Open(dir, &manifest); !errors.Is(err, task.ErrNotKept) {
		t.Errorf("a name that is no digest: error %v", err)
	}
}

// TestForgottenSubjectsLeaveKeptSamples (D20): the samples that hold a subject are removed, and those that nobody can
// read; the others and all versions stay.
func TestForgottenSubjectsLeaveKeptSamples(t *testing.T) {
	m := ratings()
	m.Publish.Keep = 10
	dir := published(t, m, 2)
	samples := filepath.Join(dir, "ratings", "samples")
	if err := os.WriteFile(filepath.Join(samples, "broken.zst"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	left := func() int {
		names, err := os.ReadDir(samples)
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	for _, c := range []struct {
		value         string
		removed, left int
	}{{"nobody", 1, 2}, {"last1", 1, 1}, {"last0", 1, 0}, {"last0", 0, 0}} {
		if n, err := reproduce.Forget(dir, "ratings", ingest.Names("user", c.value)); err != nil || n != c.removed ||
			left() != c.left {
			t.Errorf("%s: %d samples removed, %d left, error %v; want %d and %d", c.value, n, left(), err, c.removed,
				c.left)
		}
	}
	manifest := open(t, dir, 2).Manifest() // still whole
	if _, err := reproduce.Open(dir, &manifest); !errors.Is(err, task.ErrNotKept) {
		t.Errorf("a version whose sample was forgotten: %v", err)
	}
	if n, err := reproduce.Forget(t.TempDir(), "ratings", ingest.Names("user", "u1")); n != 0 || err != nil {
		t.Errorf("a store without samples: %d, %v", n, err)
	}
}
