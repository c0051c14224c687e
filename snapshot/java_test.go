package snapshot

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// javaClasses compiles the package for the JVM and its test, and returns the directories with their classes.
func javaClasses(t *testing.T) (classes, tests string) {
	t.Helper()
	out, err := exec.Command("javac", "-version").CombinedOutput()
	version := regexp.MustCompile(`javac (\d+)`).FindSubmatch(out)
	if err != nil || version == nil {
		t.Skipf("not checked: javac (17 or later) is needed (%v): %s", err, out)
	}
	if n, err := strconv.Atoi(string(version[1])); err != nil || n < 17 {
		t.Skipf("not checked: javac 17 or later is needed, this is %s", out)
	}
	dir := t.TempDir()
	classes, tests = filepath.Join(dir, "classes"), filepath.Join(dir, "tests")
	for _, part := range [][]string{{classes, "main"}, {tests, "test"}} {
		sources, err := filepath.Glob(filepath.Join("java", "src", part[1], "java", "io", "github", "refitd", "snapshot",
			"*.java"))
		snapshottest.Must(t, err)
		args := append([]string{"--release", "17", "-Xlint:all", "-Werror", "-cp", classes, "-d", part[0]}, sources...)
		if part[1] == "main" {
			snapshottest.Must(t, os.Mkdir(classes, 0o755))
		}
		if out, err := exec.CommandContext(t.Context(), "javac", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return classes, tests
}

// expectedUpdate is a model with 3 deltas of version 1, and an update with 5, and the alias champion that names each.
type expectedUpdate struct {
	Store   string    `json:"store"`
	Aliases [2][]byte `json:"aliases"`
}

func expectUpdate(t *testing.T) (want expectedUpdate) {
	t.Helper()
	store, dir := storeOf(t, 1)
	want.Store = dir
	for i, deltas := range []int{3, 5} {
		version := int64(i + 1)
		if version == 2 {
			c := snapshottest.TestContents(snapshottest.Small)
			c.Meta.Kind = "update"
			_, err := store.Publish(t.Context(), "m", c)
			snapshottest.Must(t, err)
		}
		chain, m := openChain(t, store, dir, version)
		grow(t, chain, m, deltas, 1)
		snapshottest.Must(t, setAlias(t, store, pointer.Champion, version))
		b, err := os.ReadFile(at(dir, "aliases", pointer.Champion))
		snapshottest.Must(t, err)
		want.Aliases[i] = b
	}
	return want
}

// The package for the JVM says of every kind of version what the library says, takes the same deltas, refuses what it
// refuses, and follows aliases as it does.
func TestJavaIsTheLibrary(t *testing.T) {
	tier.Need(t, tier.Long)
	classes, tests := javaClasses(t)
	dir := t.TempDir()
	written := func(name string, v any) string {
		b, err := json.Marshal(v)
		path := filepath.Join(dir, name)
		snapshottest.Must(t, err, os.WriteFile(path, b, 0o644))
		return path
	}
	store, served, _ := publishSigned(t, 1)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	chain, m := openChain(t, store, served, 1)
	grow(t, chain, m, 9, 1)
	var polls atomic.Int64
	want := expectations{Models: expectedModels(t, dir), Refusals: expectedRefusals(t), Watch: expectedMoves(t)}
	test := exec.CommandContext(t.Context(), "java", "-cp", classes+string(os.PathListSeparator)+tests,
		"io.github.refitd.snapshot.LibraryTest")
	test.Env = append(os.Environ(), "REFITD_EXPECTATIONS="+written("expectations.json", want),
		"REFITD_CHAINS="+written("chains.json", append(expectedChains(t), refusedChains(t)...)),
		"REFITD_UPDATE="+written("update.json", expectUpdate(t)),
		"REFITD_URL="+serve(t, served, &polls).URL, "REFITD_KEY="+snapshottest.KeyFile(t, dir, 1))
	out, err := test.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
	p, err := readAccepted(want.Watch.StateFile, "m", pointer.Champion)
	if err != nil || p.Version != 1 || p.Sequence == 0 {
		t.Errorf("the state file of the package's watcher is read as %+v, %v", p, err)
	}
}
