package snapshot

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// at is a path below the model of a store that publish made.
func at(dir string, path ...string) string {
	return filepath.Join(append([]string{dir, "m"}, path...)...)
}

// litter puts something at a path, in place of what is there.
var litter = map[string]func(t *testing.T, path string){
	"empty": func(t *testing.T, path string) { snapshottest.Must(t, os.WriteFile(path, nil, 0o644)) },
	"text": func(t *testing.T, path string) {
		snapshottest.Must(t, os.WriteFile(path, []byte("note to self\n"), 0o644))
	},
	"json": func(t *testing.T, path string) {
		snapshottest.Must(t, os.WriteFile(path, []byte("{\"version\":1}\n"), 0o644))
	},
	"directory": func(t *testing.T, path string) {
		snapshottest.Must(t, os.MkdirAll(filepath.Join(path, "inner"), 0o755))
	},
	"link":     func(t *testing.T, path string) { snapshottest.Must(t, os.Symlink("latest", path)) },
	"dangling": func(t *testing.T, path string) { snapshottest.Must(t, os.Symlink("nowhere", path)) },
}

// J11: no stray file among the aliases, versions and logs stops a writer, and each is named.
// isRotten reports whether an error says that bytes of a store are not what was written.
func isRotten(err error) bool {
	return errors.Is(err, disk.ErrFormat) || errors.Is(err, disk.ErrDigest)
}

func TestStraysStopNothing(t *testing.T) {
	t.Parallel()
	for kind, put := range litter {
		for _, place := range []string{"aliases/notes.txt", "aliases/champion~", "aliases/.champion.swp", "aliases/.new",
			"aliases/README", "notes", "3", ".DS_Store",
			"log-7.jsonl", "2/notes", "log.jsonl"} {
			t.Run(kind+" at "+place, func(t *testing.T) {
				t.Parallel()
				store, dir := storeOf(t, 2)
				snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
				if place == "log.jsonl" {
					snapshottest.Must(t, os.Remove(at(dir, "log.jsonl")))
				}
				put(t, at(dir, filepath.FromSlash(place)))
				goesOn(t, store, dir)
				strays, err := store.Strays("m")
				snapshottest.Must(t, err)
				named := slices.ContainsFunc(strays,
					func(s publish.Stray) bool { return s.Path == "m/"+place && s.Alias == "" && s.Err != nil })
				// A file in a version is nobody's; .new is overwritten; a log that is a file is continued, and an old
				// one as well.
				mayBeSilent := place == "2/notes" || place == "aliases/.new" || strings.Contains(place, "log") ||
					place == "3" && kind == "directory"
				if !named && !mayBeSilent {
					t.Errorf("strays %+v", strays)
				}
			})
		}
	}
}

// goesOn does once what writers and readers do to a store with champion at 1 and latest at 2.
func goesOn(t *testing.T, store *publish.Store, dir string) {
	t.Helper()
	from := int64(1)
	m, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small),
		publish.Move{Alias: pointer.Champion, From: &from})
	snapshottest.Must(t, err)
	if m.Version < 3 {
		t.Errorf("published as version %d", m.Version)
	}
	snapshottest.Must(t, moveAlias(t, store, pointer.Champion, m.Version, 1))
	aliases, err := store.Aliases("m")
	snapshottest.Must(t, err)
	if len(aliases) != 2 || aliases[pointer.Champion] != 1 || aliases[pointer.Latest] != m.Version {
		t.Errorf("aliases %v", aliases)
	}
	snapshottest.Must(t, store.Recover(t.Context(), "m"))
	if p, err := store.Alias("m", pointer.Champion); err != nil || p.Sequence != 5 {
		t.Errorf("champion %+v, %v, want move 5", p, err)
	}
	if _, err := Open(dir, "m", verify.Selector{}); err != nil {
		t.Error(err)
	}
	if _, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 1}); err != nil {
		t.Error(err)
	}
	for _, err := range store.Log("m") {
		if err != nil && !errors.Is(err, disk.ErrFormat) {
			t.Error(err)
		}
	}
}

// J11: lines of the log that are no records change neither order nor numbers.
func TestStrayLinesOfTheLog(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "note to self", "{}", "null", "[1]", `{"sequence":-3}`,
		`{"sequence":9223372036854775807}`, `{"sequence":1,"version":9}`, "\x00\x00\x00"} {
		for _, end := range []string{"\n", ""} {
			store, dir := storeOf(t, 2)
			snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
			f, err := os.OpenFile(at(dir, "log.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
			snapshottest.Must(t, err)
			_, err = f.WriteString(line + end)
			snapshottest.Must(t, errors.Join(err, f.Close()))
			goesOn(t, store, dir)
			if m, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small)); err != nil ||
				m.Version != 4 {
				t.Errorf("%q: version %d, %v", line, m.Version, err)
			}
		}
	}
}

// J11: a damaged alias comes back as it was, to the byte, with whatever a writer does next; so do all of them if their
// directory is lost.
func TestDamagedAliasesAreRebuilt(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	damage := map[string]func(t *testing.T, dir string, name string){
		"torn": func(t *testing.T, dir, name string) {
			snapshottest.Must(t, os.Truncate(at(dir, disk.AliasDir, name), 30))
		},
		"flipped": func(t *testing.T, dir, name string) {
			b, err := os.ReadFile(at(dir, disk.AliasDir, name))
			snapshottest.Must(t, err)
			snapshottest.Must(
				t,
				os.WriteFile(at(dir, disk.AliasDir, name),
					bytes.Replace(b, []byte(`"sequence":`), []byte(`"sequence":1`), 1), 0o644),
			)
		},
		"of another": func(t *testing.T, dir, name string) {
			b, err := os.ReadFile(at(dir, disk.AliasDir, "canary"))
			snapshottest.Must(t, err)
			snapshottest.Must(t, os.WriteFile(at(dir, disk.AliasDir, name), b, 0o644))
		},
		"lost": func(t *testing.T, dir, _ string) { snapshottest.Must(t, os.RemoveAll(at(dir, disk.AliasDir))) },
	}
	for kind, put := range litter {
		damage[kind] = func(t *testing.T, dir, name string) {
			snapshottest.Must(t, os.Remove(at(dir, disk.AliasDir, name)))
			put(t, at(dir, disk.AliasDir, name))
		}
	}
	writers := map[string]func(t *testing.T, store *publish.Store) error{
		"repair":  func(t *testing.T, store *publish.Store) error { _, err := store.Repair(t.Context(), "m"); return err },
		"recover": func(t *testing.T, store *publish.Store) error { return store.Recover(t.Context(), "m") },
		"prune": func(t *testing.T, store *publish.Store) error {
			_, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 9})
			return err
		},
	}
	pair := 0
	for _, kind := range slices.Sorted(maps.Keys(damage)) {
		for _, writer := range slices.Sorted(maps.Keys(writers)) {
			spoil, write := damage[kind], writers[writer]
			pair++
			for i, name := range []string{pointer.Champion, pointer.Latest, "stable"} {
				if (pair+i)%3 != 0 && !tier.Asked(tier.Long) {
					continue
				}
				store, dir, _ := publishSigned(t, 3)
				for alias, version := range map[string]int64{pointer.Champion: 2, "stable": 1, "canary": 3} {
					snapshottest.Must(t, setAlias(t, store, alias, version))
				}
				want, err := os.ReadFile(at(dir, disk.AliasDir, name))
				snapshottest.Must(t, err)
				spoil(t, dir, name)
				snapshottest.Must(t, write(t, store))
				if got, err := os.ReadFile(at(dir, disk.AliasDir, name)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s %s after %s: %q, %v, want %q", kind, name, writer, got, err, want)
				}
			}
		}
	}
}

// J11: without the log nobody knows what a damaged alias named: promoting and publishing set it, and until then nothing
// is pruned.
func TestDamagedAliasWithoutLog(t *testing.T) {
	t.Parallel()
	for kind, put := range litter {
		spoiled := func() (*publish.Store, string) {
			store, dir := storeOf(t, 3)
			snapshottest.Must(t, setAlias(t, store, pointer.Champion, 2))
			snapshottest.Must(t, errors.Join(os.Remove(at(dir, "log.jsonl")), os.Remove(at(dir, disk.AliasDir,
				pointer.Champion))))
			put(t, at(dir, disk.AliasDir, pointer.Champion))
			return store, dir
		}
		store, _ := spoiled()
		if removed, err := store.Prune(t.Context(), "m", publish.Retention{Keep: 1}); !isRotten(err) || removed != nil {
			t.Errorf("%s: pruned %v, %v", kind, removed, err)
		}
		strays, err := store.Strays("m")
		snapshottest.Must(t, err)
		if !slices.ContainsFunc(strays, func(s publish.Stray) bool { return s.Alias == pointer.Champion }) {
			t.Errorf("%s: strays %+v", kind, strays)
		}
		snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
		if p, err := store.Alias("m", pointer.Champion); err != nil || p.Version != 1 {
			t.Errorf("%s: champion %+v, %v", kind, p, err)
		}
		store, _ = spoiled()
		from := int64(2)
		if _, err := store.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small),
			publish.Move{Alias: pointer.Champion, From: &from}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if p, err := store.Alias("m", pointer.Champion); err != nil || p.Version != 4 {
			t.Errorf("%s: champion %+v, %v", kind, p, err)
		}
	}
}

// J11: what somebody wrote into the log is not signed by way of a damaged alias.
func TestRebuiltAliasesNameWhatTheKeySigned(t *testing.T) {
	t.Parallel()
	store, dir, _ := publishSigned(t, 2)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	forger := publish.NewStore(dir)
	_, other, err := ed25519.GenerateKey(nil)
	snapshottest.Must(t, err)
	forger.Signer, err = format.NewSigner(other)
	snapshottest.Must(t, err)
	if _, err := forger.Publish(t.Context(), "m", snapshottest.TestContents(snapshottest.Small),
		publish.Move{Alias: pointer.Champion}); err != nil {
		t.Fatal(err)
	}
	snapshottest.Must(t, os.Truncate(at(dir, disk.AliasDir, pointer.Champion), 0))
	snapshottest.Must(t, store.Recover(t.Context(), "m"))
	if p, err := store.Alias("m", pointer.Champion); err == nil {
		t.Errorf("rebuilt as %+v", p)
	}
}

// J12: with the log deleted it begins again with what the aliases say, in order, and no number is used twice.
func TestDeletedLog(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 3)
	snapshottest.Must(
		t,
		errors.Join(setAlias(t, store, "stable", 1), setAlias(t, store, pointer.Champion, 2),
			setAlias(t, store, "refit", 2), setAlias(t, store, "canary", 3)),
	)
	snapshottest.Must(t, os.Remove(at(dir, "log.jsonl")))
	record, err := store.MoveAlias(t.Context(), "m", publish.Move{Alias: pointer.Champion, To: 3})
	if err != nil || record.Sequence != 8 {
		t.Fatalf("%+v, %v, want move 8", record, err)
	}
	var sequences []int64
	for _, r := range records(t, store) {
		sequences = append(sequences, r.Sequence)
	}
	if want := []int64{3, 4, 5, 6, 7, 8}; !slices.Equal(sequences, want) {
		t.Errorf("the log has %v, want %v", sequences, want)
	}
}
