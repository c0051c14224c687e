package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/verify"
)

// expectedRefusal is how a version is opened and the name of the error, empty for none.
type expectedRefusal struct {
	Name    string   `json:"name"`
	Store   string   `json:"store"`
	Model   string   `json:"model"`
	Version int64    `json:"version"` // 0 is the alias
	Alias   string   `json:"alias"`
	Keys    []string `json:"keys"` // files; null asks for none
	Now     string   `json:"now"`
	Error   string   `json:"error"`
	Says    string   `json:"says"` // what is in the text of the error
}

// expectedWatch is a store whose alias a test moves by the files of its stages.
type expectedWatch struct {
	Store     string         `json:"store"`
	Keys      []string       `json:"keys"`
	StateFile string         `json:"state_file"`
	Now       string         `json:"now"`
	Stages    []watchedStage `json:"stages"`
}

// watchedStage is what an alias and its renewal say, and the state of a watcher after that.
type watchedStage struct {
	Name    string `json:"name"`
	Alias   []byte `json:"alias"`
	Renewal []byte `json:"renewal"` // null is none
	Version int64  `json:"version"`
	Error   string `json:"error"`
	Expires string `json:"expires"` // empty is never
}

// expectedRefusals damages versions in every way and asks the library.
func expectedRefusals(t *testing.T) (list []expectedRefusal) {
	t.Helper()
	store, dir, _ := publishSigned(t, 1)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	_, unsigned := storeOf(t, 1)
	_, expired := expiring(t)
	keys := t.TempDir()
	one, two := snapshottest.KeyFile(t, keys, 1), snapshottest.KeyFile(t, keys, 2)
	ask := func(e expectedRefusal) {
		if e.Model == "" {
			e.Model = "m"
		}
		if e.Alias == "" {
			e.Alias = pointer.Champion
		}
		trust := verify.Trust{Now: func() time.Time { return snapshottest.Created }}
		if e.Now != "" {
			trust.Now = func() time.Time { at, err := time.Parse(time.RFC3339, e.Now); snapshottest.Must(t, err); return at }
		} else {
			e.Now = snapshottest.Created.Format(time.RFC3339)
		}
		if e.Keys != nil {
			var err error
			trust.Keys, err = format.LoadKeys(e.Keys...)
			snapshottest.Must(t, err)
		}
		_, err := trust.Open(e.Store, e.Model, verify.Selector{Alias: e.Alias, Version: e.Version})
		if e.Error = pythonError(err); e.Says != "" && (err == nil || !strings.Contains(err.Error(), e.Says)) {
			t.Errorf("%s: %v, want %q in it", e.Name, err, e.Says)
		}
		list = append(list, e)
	}
	ask(expectedRefusal{Name: "signed", Store: dir, Keys: []string{one}})
	ask(expectedRefusal{Name: "signed, both keys", Store: dir, Keys: []string{two, one}})
	ask(expectedRefusal{Name: "signed, no keys", Store: dir})
	ask(expectedRefusal{Name: "another key", Store: dir, Keys: []string{two}})
	ask(expectedRefusal{Name: "another key, by number", Store: dir, Version: 1, Keys: []string{two}})
	ask(expectedRefusal{Name: "no key at all", Store: dir, Keys: []string{}})
	ask(expectedRefusal{Name: "unsigned", Store: unsigned, Version: 1, Keys: []string{one}})
	ask(expectedRefusal{Name: "unsigned alias", Store: unsigned, Alias: pointer.Latest, Keys: []string{one}})
	ask(expectedRefusal{Name: "no alias", Store: unsigned})
	ask(expectedRefusal{Name: "no version", Store: unsigned, Version: 7})
	ask(expectedRefusal{Name: "no model", Store: unsigned, Model: "n"})
	ask(expectedRefusal{Name: "no store", Store: filepath.Join(unsigned, "n")})
	ask(expectedRefusal{Name: "bad model", Store: unsigned, Model: "../m"})
	ask(expectedRefusal{Name: "bad alias", Store: unsigned, Alias: "../latest"})
	ask(
		expectedRefusal{
			Name:  "not yet expired",
			Store: expired,
			Alias: pointer.Latest,
			Now:   snapshottest.Created.Add(time.Hour - time.Second).Format(time.RFC3339),
		},
	)
	ask(
		expectedRefusal{
			Name:  "expired",
			Store: expired,
			Alias: pointer.Latest,
			Now:   snapshottest.Created.Add(time.Hour).Format(time.RFC3339),
		},
	)
	damaged := func(name, of string, change func(dir string)) {
		copied := t.TempDir()
		snapshottest.Must(t, os.CopyFS(copied, os.DirFS(of)))
		change(filepath.Join(copied, "m"))
		e := expectedRefusal{Name: name, Store: copied, Alias: pointer.Latest}
		if ask(e); of == dir {
			e.Keys = []string{one}
			ask(e)
		}
	}
	for _, file := range []string{"aliases/latest", "1/manifest.json", "1/manifest.sig", "1/model.safetensors",
		"1/vocabulary", "1/golden.jsonl"} {
		whole, err := os.ReadFile(filepath.Join(dir, "m", file))
		snapshottest.Must(t, err)
		for _, at := range []int{0, len(whole) / 3, len(whole) / 2, len(whole) - 20, len(whole) - 1} {
			damaged("bit of byte "+strconv.Itoa(at)+" of "+file, dir, func(model string) {
				b := bytes.Clone(whole)
				b[at] ^= 1
				snapshottest.Must(t, os.WriteFile(filepath.Join(model, file), b, 0o644))
			})
		}
		damaged("without "+file, dir, func(model string) { snapshottest.Must(t, os.Remove(filepath.Join(model, file))) })
		damaged("cut off: "+file, dir,
			func(model string) { snapshottest.Must(t, os.Truncate(filepath.Join(model, file), int64(len(whole)/2))) })
		damaged("a directory: "+file, dir, func(model string) {
			snapshottest.Must(t, os.Remove(filepath.Join(model, file)))
			snapshottest.Must(t, os.Mkdir(filepath.Join(model, file), 0o755))
		})
		damaged("a link out of the model: "+file, dir, func(model string) {
			snapshottest.Must(t, os.Remove(filepath.Join(model, file)))
			snapshottest.Must(t, os.Symlink(filepath.Join(dir, "m", file), filepath.Join(model, file)))
		})
	}
	damaged("another alias", dir, func(model string) {
		snapshottest.Must(t, os.Rename(filepath.Join(model, "aliases", pointer.Champion), filepath.Join(model, "aliases",
			pointer.Latest)))
	})
	damaged("an invented number", unsigned, func(model string) {
		p := pointer.Pointer{Version: 1, ManifestDigest: "sha256:0", Sequence: 1 << 50, Moved: snapshottest.Created,
			Event: publish.EventAlias}
		p.Seal("m", pointer.Latest, nil)
		b, err := p.Encode()
		snapshottest.Must(t, err)
		snapshottest.Must(t, os.WriteFile(filepath.Join(model, "aliases", pointer.Latest), b, 0o644))
	})
	damaged("a part of a newer schema", unsigned, func(model string) { withNewMember(t, model, true) })
	damaged("a part of a newer schema that changes no score", unsigned,
		func(model string) { withNewMember(t, model, false) })
	for name, change := range resealed() {
		damaged(name, unsigned, func(model string) { reseal(t, model, change) })
	}
	for name, change := range resealedTrees() {
		ruled := t.TempDir()
		_, err := publish.NewStore(ruled).Publish(t.Context(), "m",
			snapshottest.WithTrees(snapshottest.TestContents(snapshottest.Small)))
		snapshottest.Must(t, err)
		reseal(t, filepath.Join(ruled, "m"), change)
		ask(expectedRefusal{Name: name, Store: ruled, Alias: pointer.Latest, Says: newer(name)})
	}
	file, err := format.EncodeTables(catalogue().Tables)
	snapshottest.Must(t, err)
	for name, change := range resealedTables(file) {
		tabled := t.TempDir()
		_, err := publish.NewStore(tabled).Publish(t.Context(), "m", catalogue())
		snapshottest.Must(t, err)
		reseal(t, filepath.Join(tabled, "m"), change)
		ask(expectedRefusal{Name: name, Store: tabled, Alias: pointer.Latest, Says: newer(name)})
	}
	return list
}

// resealedTrees are changes of the file of trees that no digest shows.
func resealedTrees() map[string]func(f *forged) {
	replace := func(old, by string) func(*forged) {
		return func(f *forged) {
			f.files[format.TreesFile] = []byte(strings.Replace(string(f.files[format.TreesFile]), old, by, 1))
		}
	}
	return map[string]func(f *forged){
		"trees as they are":        replace("", ""),
		"trees of a newer form":    replace(`"version":1`, `"version":2`),
		"trees of a newer format":  func(f *forged) { f.manifest.Format = format.FormatVersion + 1 },
		"trees in format 6":        func(f *forged) { f.manifest.Format = 6 },
		"trees in another file":    func(f *forged) { f.manifest.Trees.Name = "../trees" },
		"more trees than lines":    replace(`"trees":8`, `"trees":9`),
		"fewer trees than lines":   replace(`"trees":8`, `"trees":7`),
		"trees of no field":        replace(`"field":"age"`, `"field":"size"`),
		"trees of a list":          replace(`"field":"item","is":"i2"`, `"field":"tags","is":"a"`),
		"a number that is a name":  replace(`"at_least":30`, `"is":"30"`),
		"two questions in one":     replace(`"at_least":30`, `"at_least":30,"is":"a"`),
		"no question":              replace(`,"at_least":30`, ``),
		"a question without name":  replace(`"is":"i2"`, `"is":""`),
		"an edge beyond numbers":   replace(`"at_least":30`, `"at_least":1e999`),
		"leaves that are too many": replace(`"leaves":[`, `"leaves":[0,`),
		"a leaf that is no number": replace(`"leaves":[`, `"leaves":["0",`),
		"trees with more to say":   replace(`"leaves"`, `"shrunk":true,"leaves"`),
		"a question with more":     replace(`"at_least":30`, `"at_least":30,"not":true`),
		"trees without their end": func(f *forged) {
			f.files[format.TreesFile] = bytes.TrimSpace(f.files[format.TreesFile])
		},
		"other leaves": replace(`"leaves":[`, `"leaves":[1`),
	}
}

// forged is a version whose digests are made anew after a change.
type forged struct {
	manifest format.Manifest
	files    map[string][]byte
}

// resealed are changes that no digest shows.
func resealed() map[string]func(f *forged) {
	replace := func(file, old, by string) func(*forged) {
		return func(f *forged) { f.files[file] = []byte(strings.Replace(string(f.files[file]), old, by, 1)) }
	}
	return map[string]func(f *forged){
		"nothing changed":        func(*forged) {},
		"a format of the future": func(f *forged) { f.manifest.Format = 99 },
		"a format of zero":       func(f *forged) { f.manifest.Format = 0 },
		"limits in format 1":     func(f *forged) { f.manifest.Schema.Numeric[0].Clip = 2 },
		"degree 3 in format 1":   func(f *forged) { f.manifest.Degree = 3 },
		"another degree":         func(f *forged) { f.manifest.Degree, f.manifest.Format = 4, 5 },
		"no degree":              func(f *forged) { f.manifest.Degree = 0 },
		"another model":          func(f *forged) { f.manifest.Model = "other" },
		"another version":        func(f *forged) { f.manifest.Version = 2 },
		"another link":           func(f *forged) { f.manifest.Link = format.Softmax },
		"another kernel":         func(f *forged) { f.manifest.Kernel = "cubic" },
		"another task":           func(f *forged) { f.manifest.Schema.Task = "ranking" },
		"too many features":      func(f *forged) { f.manifest.NumFeatures++ },
		"a gigantic shape":       func(f *forged) { f.manifest.NumBasis = math.MaxInt32 },
		"a negative shape":       func(f *forged) { f.manifest.NumBasis = -1 },
		"a field twice":          func(f *forged) { f.manifest.Schema.Categorical[1] = "user" },
		"a scale of zero":        func(f *forged) { f.manifest.Schema.Numeric[0].Scale = 0 },
		"optional: no field":     func(f *forged) { f.manifest.Schema.Optional = []string{"nothing"} },
		"a cross of one": func(f *forged) {
			f.manifest.Schema.Cross, f.manifest.Format = [][]string{{"user"}},
				4
		},
		"weights of lists in format 5": func(f *forged) {
			f.manifest.Schema.MultiWeights, f.manifest.Format = []string{format.WeightSqrt}, 5
		},
		"weights of more lists": func(f *forged) {
			f.manifest.Schema.MultiWeights, f.manifest.Format = []string{format.WeightMean, format.WeightSqrt}, 6
		},
		"a weight of no kind": func(f *forged) {
			f.manifest.Schema.MultiWeights, f.manifest.Format = []string{"one"},
				6
		},
		"a map of no kind": func(f *forged) {
			f.manifest.Schema.FeatureMap, f.manifest.Format = &format.FeatureMap{Kind: "wavelets"}, 3
		},
		"a fold-in of nothing": func(f *forged) { f.manifest.FoldIn = &format.FoldIn{Likelihood: format.LogisticLikelihood} },
		"two files":            func(f *forged) { f.manifest.Files = f.manifest.Files[:2] },
		"another file":         func(f *forged) { f.manifest.Files[1].Name = "../vocabulary" },
		"a cut file": func(f *forged) {
			f.manifest.CutFile = &format.File{Name: "cut.json", Bytes: 2, SHA256: disk.HexSum([]byte("[]"))}
		},
		"a number that is none": func(f *forged) {
			b := f.files[disk.TensorsFile]
			binary.LittleEndian.PutUint64(b[len(b)-8:], math.Float64bits(math.NaN()))
		},
		"another header":      replace(disk.TensorsFile, "basis", "bases"),
		"a tensor more":       func(f *forged) { f.files[disk.TensorsFile] = append(f.files[disk.TensorsFile], 0) },
		"a name twice":        replace(disk.VocabularyFile, `"u2"`, `"u1"`),
		"an empty name":       replace(disk.VocabularyFile, `"u2"`, `""`),
		"another field":       replace(disk.VocabularyFile, `"user"`, `"nobody"`),
		"fields out of order": replace(disk.VocabularyFile, `"user"`, `"item"`),
		"a name less":         replace(disk.VocabularyFile, "[\"user\",\"u2\"]\n", ""),
		"two names on a line": replace(disk.VocabularyFile, "\"]\n[", "\"],["),
		"a name without an end": func(f *forged) {
			f.files[disk.VocabularyFile] = bytes.TrimSpace(
				f.files[disk.VocabularyFile])
		},
		"names that are not UTF-8": func(f *forged) {
			f.files[disk.VocabularyFile] = bytes.Replace(f.files[disk.VocabularyFile], []byte("u2"), []byte{0xff}, 1)
		},
		"no golden events":      func(f *forged) { f.files[disk.GoldenFile] = nil },
		"golden events of JSON": func(f *forged) { f.files[disk.GoldenFile] = append(f.files[disk.GoldenFile], "{"...) },
		"golden outputs less":   replace(disk.GoldenFile, `"outputs":[`, `"outputs":[1,`),
		"golden outputs":        replace(disk.GoldenFile, `"outputs":[`, `"outputs":[1`),
		"golden prediction":     replace(disk.GoldenFile, `"prediction":`, `"prediction":1`),
		"golden event":          replace(disk.GoldenFile, `"user":"u1"`, `"user":7.5`),
	}
}

// reseal changes version 1 below a model's directory and the alias latest.
func reseal(t *testing.T, model string, change func(*forged)) {
	t.Helper()
	path := func(name string) string { return filepath.Join(model, "1", name) }
	read := func(name string) []byte {
		b, err := os.ReadFile(path(name))
		snapshottest.Must(t, err)
		return b
	}
	f := &forged{files: map[string][]byte{}}
	for _, name := range []string{disk.TensorsFile, disk.VocabularyFile, disk.GoldenFile} {
		f.files[name] = read(name)
	}
	var err error
	f.manifest, err = format.DecodeManifest(read(disk.ManifestFile))
	snapshottest.Must(t, err)
	if f.manifest.Trees != nil {
		f.files[format.TreesFile] = read(format.TreesFile)
	}
	if f.manifest.Tables != nil {
		f.files[format.TablesFile] = read(format.TablesFile)
	}
	change(f)
	m := &f.manifest
	if b, ok := f.files[format.TablesFile]; ok {
		m.Tables.Bytes, m.Tables.SHA256 = int64(len(b)), disk.HexSum(b)
		snapshottest.Must(t, os.WriteFile(path(format.TablesFile), b, 0o644))
	}
	if b, ok := f.files[format.TreesFile]; ok {
		m.Trees.Bytes, m.Trees.SHA256 = int64(len(b)), disk.HexSum(b)
		snapshottest.Must(t, os.WriteFile(path(format.TreesFile), b, 0o644))
	}
	for i := range m.Files {
		if b, ok := f.files[m.Files[i].Name]; ok {
			m.Files[i].Bytes, m.Files[i].SHA256 = int64(len(b)), disk.HexSum(b)
			snapshottest.Must(t, os.WriteFile(path(m.Files[i].Name), b, 0o644))
		}
	}
	m.PayloadDigest, err = m.DigestPayload(m.Files[0].SHA256, m.Files[1].SHA256)
	snapshottest.Must(t, err)
	b, err := m.Encode()
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(path(disk.ManifestFile), b, 0o644))
	p := pointer.Pointer{Version: 1, ManifestDigest: m.Digest, Sequence: 1, Moved: snapshottest.Created,
		Event: publish.EventAlias}
	p.Seal("m", pointer.Latest, nil)
	b, err = p.Encode()
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(filepath.Join(model, "aliases", pointer.Latest), b, 0o644))
}

// expectedMoves moves an alias of a signed store, of which version 1 expires.
func expectedMoves(t *testing.T) expectedWatch {
	t.Helper()
	store, dir, _ := publishSigned(t, 0)
	store.Now = func() time.Time { return snapshottest.Created }
	c := snapshottest.TestContents(snapshottest.Small)
	c.Meta.Expires = snapshottest.Created.Add(time.Hour)
	for _, contents := range []*format.Contents{c, snapshottest.TestContents(snapshottest.Small)} {
		_, err := store.Publish(t.Context(), "m", contents)
		snapshottest.Must(t, err)
	}
	w := expectedWatch{
		Store:     dir,
		Keys:      []string{snapshottest.KeyFile(t, t.TempDir(), 1)},
		StateFile: filepath.Join(t.TempDir(), "accepted"),
		Now:       snapshottest.Created.Format(time.RFC3339),
	}
	model := filepath.Join(dir, "m")
	stage := func(name string, version int64, sentinel error, expires time.Time) watchedStage {
		alias, err := os.ReadFile(filepath.Join(model, disk.AliasDir, pointer.Champion))
		snapshottest.Must(t, err)
		s := watchedStage{Name: name, Alias: alias, Version: version, Error: pythonError(sentinel)}
		if s.Renewal, err = os.ReadFile(filepath.Join(model, disk.RenewalDir, pointer.Champion)); err != nil {
			s.Renewal = nil
		}
		if !expires.IsZero() {
			s.Expires = expires.Format(time.RFC3339)
		}
		w.Stages = append(w.Stages, s)
		return s
	}
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	first := stage("version 1", 1, nil, c.Meta.Expires)
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 2))
	second := stage("version 2", 2, nil, time.Time{})
	first.Name, first.Version, first.Error, first.Expires = "the old alias", 2, "OlderError", ""
	w.Stages = append(w.Stages, first)
	forger := publish.NewStore(dir)
	forger.Now = store.Now
	snapshottest.Must(t, setAlias(t, forger, pointer.Champion, 1))
	stage("an unsigned alias", 2, disk.ErrSignature, time.Time{})
	second.Name = "as it was"
	w.Stages = append(w.Stages, second)
	snapshottest.Must(t, os.WriteFile(filepath.Join(model, disk.AliasDir, pointer.Champion), second.Alias, 0o644))
	snapshottest.Must(t, setAlias(t, store, pointer.Champion, 1))
	stage("a rollback", 1, nil, c.Meta.Expires)
	_, err := store.Renew(t.Context(), "m", pointer.Champion, snapshottest.Created.Add(3*time.Hour))
	snapshottest.Must(t, err)
	stage("a renewal", 1, nil, snapshottest.Created.Add(3*time.Hour))
	renewal := filepath.Join(model, disk.RenewalDir, pointer.Champion)
	var r pointer.Renewal
	b, err := os.ReadFile(renewal)
	snapshottest.Must(t, err)
	snapshottest.Must(t, json.Unmarshal(b, &r))
	r.Expires = r.Expires.Add(time.Hour)
	b, err = json.Marshal(r)
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(renewal, b, 0o644))
	stage("a forged renewal", 1, nil, snapshottest.Created.Add(3*time.Hour))
	return w
}
