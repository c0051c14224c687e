package snapshot

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// at is a path below the model of a store that publish made.
func at(dir string, path ...string) string {
	return filepath.Join(append([]string{dir, "m"}, path...)...)
}

// litter puts something at a path, in place of what is there.
var litter = map[string]func(t *testing.T, path string){
	"empty":     func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o644)) },
	"text":      func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("note to self\n"), 0o644)) },
	"json":      func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("{\"version\":1}\n"), 0o644)) },
	"directory": func(t *testing.T, path string) { must(t, os.MkdirAll(filepath.Join(path, "inner"), 0o755)) },
	"link":      func(t *testing.T, path string) { must(t, os.Symlink("latest", path)) },
	"dangling":  func(t *testing.T, path string) { must(t, os.Symlink("nowhere", path)) },
}

// J11: no stray file among the aliases, versions and logs stops a writer, and each is named.
// isRotten reports whether an error says that bytes of a store are not what was written.
func isRotten(err error) bool { return errors.Is(err, ErrFormat) || errors.Is(err, ErrDigest) }

func TestStraysStopNothing(t *testing.T) {
	t.Parallel()
	for kind, put := range litter {
		for _, place := range []string{"aliases/notes.txt", "aliases/champion~", "aliases/.champion.swp", "aliases/.new",
			"aliases/README", "notes", "3", ".DS_Store",
			"log-7.jsonl", "2/notes", "log.jsonl"} {
			t.Run(kind+" at "+place, func(t *testing.T) {
				t.Parallel()
				store, dir := storeOf(t, 2)
				must(t, setAlias(t, store, Champion, 1))
				if place == "log.jsonl" {
					must(t, os.Remove(at(dir, "log.jsonl")))
				}
				put(t, at(dir, filepath.FromSlash(place)))
				goesOn(t, store, dir)
				strays, err := store.Strays("m")
				must(t, err)
				named := slices.ContainsFunc(
					strays,
					func(s Stray) bool { return s.Path == "m/"+place && s.Alias == "" && s.Err != nil },
				)
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
func goesOn(t *testing.T, store *Store, dir string) {
	t.Helper()
	from := int64(1)
	m, err := store.Publish(t.Context(), "m", testContents(small), Move{Alias: Champion, From: &from})
	must(t, err)
	if m.Version < 3 {
		t.Errorf("published as version %d", m.Version)
	}
	must(t, moveAlias(t, store, Champion, m.Version, 1))
	aliases, err := store.Aliases("m")
	must(t, err)
	if len(aliases) != 2 || aliases[Champion] != 1 || aliases[Latest] != m.Version {
		t.Errorf("aliases %v", aliases)
	}
	must(t, store.Recover(t.Context(), "m"))
	if p, err := store.Alias("m", Champion); err != nil || p.Sequence != 5 {
		t.Errorf("champion %+v, %v, want move 5", p, err)
	}
	if _, err := Open(dir, "m", Selector{}); err != nil {
		t.Error(err)
	}
	if _, err := store.Prune(t.Context(), "m", Retention{Keep: 1}); err != nil {
		t.Error(err)
	}
	for _, err := range store.Log("m") {
		if err != nil && !errors.Is(err, ErrFormat) {
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
			must(t, setAlias(t, store, Champion, 1))
			f, err := os.OpenFile(at(dir, "log.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteString(line + end)
			must(t, errors.Join(err, f.Close()))
			goesOn(t, store, dir)
			if m, err := store.Publish(t.Context(), "m", testContents(small)); err != nil || m.Version != 4 {
				t.Errorf("%q: version %d, %v", line, m.Version, err)
			}
		}
	}
}

// J11: a damaged alias comes back as it was, to the byte, with whatever a writer does next; so do all of them if their
// directory is lost.
func TestDamagedAliasesAreRebuilt(t *testing.T) {
	t.Parallel()
	damage := map[string]func(t *testing.T, dir string, name string){
		"torn": func(t *testing.T, dir, name string) { must(t, os.Truncate(at(dir, aliasDir, name), 30)) },
		"flipped": func(t *testing.T, dir, name string) {
			b, err := os.ReadFile(at(dir, aliasDir, name))
			must(t, err)
			must(
				t,
				os.WriteFile(
					at(dir, aliasDir, name),
					bytes.Replace(b, []byte(`"sequence":`), []byte(`"sequence":1`), 1),
					0o644,
				),
			)
		},
		"of another": func(t *testing.T, dir, name string) {
			b, err := os.ReadFile(at(dir, aliasDir, "canary"))
			must(t, err)
			must(t, os.WriteFile(at(dir, aliasDir, name), b, 0o644))
		},
		"lost": func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(at(dir, aliasDir))) },
	}
	for kind, put := range litter {
		damage[kind] = func(t *testing.T, dir, name string) {
			must(t, os.Remove(at(dir, aliasDir, name)))
			put(t, at(dir, aliasDir, name))
		}
	}
	writers := map[string]func(t *testing.T, store *Store) error{
		"repair":  func(t *testing.T, store *Store) error { _, err := store.Repair(t.Context(), "m"); return err },
		"recover": func(t *testing.T, store *Store) error { return store.Recover(t.Context(), "m") },
		"prune": func(t *testing.T, store *Store) error {
			_, err := store.Prune(t.Context(), "m", Retention{Keep: 9})
			return err
		},
	}
	for kind, spoil := range damage {
		for writer, write := range writers {
			for _, name := range []string{Champion, Latest, "stable"} {
				store, dir, _ := publishSigned(t, 3)
				for alias, version := range map[string]int64{Champion: 2, "stable": 1, "canary": 3} {
					must(t, setAlias(t, store, alias, version))
				}
				want, err := os.ReadFile(at(dir, aliasDir, name))
				must(t, err)
				spoil(t, dir, name)
				must(t, write(t, store))
				if got, err := os.ReadFile(at(dir, aliasDir, name)); err != nil || !bytes.Equal(got, want) {
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
		spoiled := func() (*Store, string) {
			store, dir := storeOf(t, 3)
			must(t, setAlias(t, store, Champion, 2))
			must(t, errors.Join(os.Remove(at(dir, "log.jsonl")), os.Remove(at(dir, aliasDir, Champion))))
			put(t, at(dir, aliasDir, Champion))
			return store, dir
		}
		store, _ := spoiled()
		if removed, err := store.Prune(t.Context(), "m", Retention{Keep: 1}); !isRotten(err) || removed != nil {
			t.Errorf("%s: pruned %v, %v", kind, removed, err)
		}
		strays, err := store.Strays("m")
		must(t, err)
		if !slices.ContainsFunc(strays, func(s Stray) bool { return s.Alias == Champion }) {
			t.Errorf("%s: strays %+v", kind, strays)
		}
		must(t, setAlias(t, store, Champion, 1))
		if p, err := store.Alias("m", Champion); err != nil || p.Version != 1 {
			t.Errorf("%s: champion %+v, %v", kind, p, err)
		}
		store, _ = spoiled()
		from := int64(2)
		if _, err := store.Publish(t.Context(), "m", testContents(small), Move{Alias: Champion, From: &from}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if p, err := store.Alias("m", Champion); err != nil || p.Version != 4 {
			t.Errorf("%s: champion %+v, %v", kind, p, err)
		}
	}
}

// J11: what somebody wrote into the log is not signed by way of a damaged alias.
func TestRebuiltAliasesNameWhatTheKeySigned(t *testing.T) {
	t.Parallel()
	store, dir, _ := publishSigned(t, 2)
	must(t, setAlias(t, store, Champion, 1))
	forger := NewStore(dir)
	_, other, err := ed25519.GenerateKey(nil)
	must(t, err)
	forger.Signer, err = NewSigner(other)
	must(t, err)
	if _, err := forger.Publish(t.Context(), "m", testContents(small), Move{Alias: Champion}); err != nil {
		t.Fatal(err)
	}
	must(t, os.Truncate(at(dir, aliasDir, Champion), 0))
	must(t, store.Recover(t.Context(), "m"))
	if p, err := store.Alias("m", Champion); err == nil {
		t.Errorf("rebuilt as %+v", p)
	}
}

// J12: with the log deleted it begins again with what the aliases say, in order, and no number is used twice.
func TestDeletedLog(t *testing.T) {
	t.Parallel()
	store, dir := storeOf(t, 3)
	must(
		t,
		errors.Join(
			setAlias(t, store, "stable", 1),
			setAlias(t, store, Champion, 2),
			setAlias(t, store, "refit", 2),
			setAlias(t, store, "canary", 3),
		),
	)
	must(t, os.Remove(at(dir, "log.jsonl")))
	record, err := store.MoveAlias(t.Context(), "m", Move{Alias: Champion, To: 3})
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
