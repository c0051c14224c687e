package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// isRefusal reports whether an error is one of those that Open promises for altered files.
func isRefusal(err error) bool {
	return errors.Is(err, ErrDigest) || errors.Is(err, ErrFormat) || errors.Is(err, ErrNotFound) ||
		errors.Is(err, ErrName)
}

var versionFiles = []string{
	"1/" + ManifestFile,
	"1/" + tensorsFile,
	"1/" + vocabularyFile,
	"1/" + goldenFile,
	"aliases/" + Latest,
}

func TestEveryBitFlipRefused(t *testing.T) {
	t.Parallel()
	_, dir := storeOf(t, 1)
	for _, name := range versionFiles {
		f, err := os.OpenFile(filepath.Join(dir, "m", name), os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		content, err := os.ReadFile(f.Name())
		must(t, err)
		for i, b := range content {
			for bit := range 8 {
				if bit != i%8 && !tier.Asked(tier.Long) {
					continue // one bit of each byte
				}
				_, err := f.WriteAt([]byte{b ^ 1<<bit}, int64(i))
				must(t, err)
				if m, err := Open(dir, "m", Selector{Alias: Latest}); m != nil || !isRefusal(err) {
					t.Fatalf("%s, byte %d, bit %d: %v", name, i, bit, err)
				}
			}
			_, err := f.WriteAt([]byte{b}, int64(i))
			must(t, err)
		}
	}
	if _, err := Open(dir, "m", Selector{Alias: Latest}); err != nil {
		t.Errorf("restored: %v", err)
	}
}

func TestEveryTruncationRefused(t *testing.T) {
	t.Parallel()
	_, dir := storeOf(t, 1)
	for _, name := range versionFiles {
		path := filepath.Join(dir, "m", name)
		content, err := os.ReadFile(path)
		must(t, err)
		refused := func(what string) {
			if m, err := Open(dir, "m", Selector{Alias: Latest}); m != nil || !isRefusal(err) {
				t.Fatalf("%s %s: %v", name, what, err)
			}
		}
		step := tier.Size(5, 1)
		for n := len(content) - 1; n >= 0; n -= step {
			must(t, os.Truncate(path, int64(n)))
			refused(fmt.Sprintf("cut off at %d", n))
		}
		must(t, os.WriteFile(path, append(bytes.Clone(content), '\n'), 0o644))
		refused("with one more byte")
		must(t, os.Truncate(path, 1<<40)) // sparse: refused without reading or allocating a terabyte
		refused("of a terabyte")
		must(t, os.Remove(path))
		refused("gone")
		must(t, os.WriteFile(path, content, 0o644))
	}
}

// forge replaces files of version 1 and writes a manifest that vouches for them, as somebody could who knows the
// format.
func forge(t *testing.T, dir string, change func(m *Manifest, files map[string][]byte)) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, "m", "1", name) }
	m, err := NewStore(dir).Manifest("m", 1)
	must(t, err)
	files := map[string][]byte{}
	for _, f := range m.Files {
		files[f.Name], err = os.ReadFile(at(f.Name))
		must(t, err)
	}
	change(&m, files)
	for i, f := range m.Files {
		b, ok := files[f.Name]
		if !ok {
			continue
		}
		m.Files[i].Bytes, m.Files[i].SHA256 = int64(len(b)), hexSum(b)
		must(t, os.WriteFile(at(f.Name), b, 0o644))
	}
	m.PayloadDigest, err = m.payloadDigest(m.Files[0].SHA256, m.Files[1].SHA256)
	must(t, err)
	b, err := m.encode()
	must(t, err)
	must(t, os.WriteFile(at(ManifestFile), b, 0o644))
}

// Attacks that every digest vouches for.
func TestForgedVersionsRefused(t *testing.T) {
	t.Parallel()
	header := func(change func(text string) string) func(*Manifest, map[string][]byte) {
		return func(m *Manifest, files map[string][]byte) {
			b := files[tensorsFile]
			n := binary.LittleEndian.Uint64(b)
			text := change(string(b[8 : 8+n]))
			files[tensorsFile] = append(
				append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...),
				b[8+n:]...)
		}
	}
	length := func(n uint64) func(*Manifest, map[string][]byte) {
		return func(m *Manifest, files map[string][]byte) { binary.LittleEndian.PutUint64(files[tensorsFile], n) }
	}
	replace := func(old, new string) func(text string) string {
		return func(text string) string {
			if !strings.Contains(text, old) {
				panic("no " + old + " in " + text)
			}
			return strings.Replace(text, old, new, 1)
		}
	}
	for _, test := range []struct {
		name   string
		change func(m *Manifest, files map[string][]byte)
		want   error
	}{
		{"header length 0", length(0), ErrFormat},
		{"header length 2^32", length(1 << 32), ErrFormat},
		{"header length 2^63", length(1 << 63), ErrFormat},
		{"header length beyond the file", length(1 << 20), ErrFormat},
		{"overlapping offsets", header(replace(`"data_offsets":[80,112]`, `"data_offsets":[72,104]`)), ErrFormat},
		{"gap between offsets", header(replace(`"data_offsets":[80,112]`, `"data_offsets":[88,120]`)), ErrFormat},
		{"negative offset", header(replace(`"data_offsets":[0,80]`, `"data_offsets":[-8,72]`)), ErrFormat},
		{"shape product overflows", header(replace(`"shape":[10,1]`, `"shape":[9223372036854775807,4]`)), ErrFormat},
		{"another type", header(replace("F64", "F32")), ErrFormat},
		{"duplicate name", header(replace("weights", "basis")), ErrFormat},
		{"unknown tensor", header(replace("weights", "weightz")), ErrFormat},
		{"numbers left over", func(m *Manifest, files map[string][]byte) {
			files[tensorsFile] = append(files[tensorsFile], make([]byte, 8)...)
		}, ErrFormat},
		{"one number too few", func(m *Manifest, files map[string][]byte) {
			files[tensorsFile] = files[tensorsFile][:len(files[tensorsFile])-8]
		}, ErrFormat},
		{"empty file", func(m *Manifest, files map[string][]byte) { files[tensorsFile] = nil }, ErrFormat},
		{"NaN parameter", func(m *Manifest, files map[string][]byte) {
			b := files[tensorsFile]
			binary.LittleEndian.PutUint64(b[len(b)-8:], math.Float64bits(math.NaN()))
		}, ErrFormat},
		{"other parameter", func(m *Manifest, files map[string][]byte) {
			b := files[tensorsFile]
			binary.LittleEndian.PutUint64(b[len(b)-8:], math.Float64bits(3))
		}, ErrGolden},
		{"swapped names", func(m *Manifest, files map[string][]byte) {
			files[vocabularyFile] = bytes.Replace(bytes.Replace(bytes.Replace(files[vocabularyFile], []byte("u1"), []byte("u0"),
				1), []byte("u3"),
				[]byte("u1"), 1), []byte("u0"), []byte("u3"), 1)
		}, ErrGolden},
		{"other prediction", func(m *Manifest, files map[string][]byte) {
			files[goldenFile] = bytes.Replace(files[goldenFile], []byte(`"prediction":`), []byte(`"prediction":1`), 1)
		}, ErrGolden},
		{"no golden events", func(m *Manifest, files map[string][]byte) { files[goldenFile] = nil }, ErrFormat},
		{"golden event of another kind", func(m *Manifest, files map[string][]byte) {
			files[goldenFile] = []byte(
				`{"event":{"user":1.5}}`)
		}, ErrFormat},
		{"golden event not JSON", func(m *Manifest, files map[string][]byte) { files[goldenFile] = []byte("{\n") },
			ErrFormat},
		{"vocabulary not UTF-8", func(m *Manifest, files map[string][]byte) { files[vocabularyFile][9] = 0xff }, ErrFormat},
		{"vocabulary without its last newline", func(m *Manifest, files map[string][]byte) {
			files[vocabularyFile] = bytes.TrimSuffix(files[vocabularyFile], []byte("\n"))
		}, ErrFormat},
		{"vocabulary with one name more", func(m *Manifest, files map[string][]byte) {
			files[vocabularyFile] = append(files[vocabularyFile], `["tags","c"]`+"\n"...)
		}, ErrFormat},
		{"fields out of order", func(m *Manifest, files map[string][]byte) {
			files[vocabularyFile] = append([]byte(`["tags","a"]`+"\n"), bytes.Replace(files[vocabularyFile], []byte(
				`["tags","a"]`+"\n"), nil, 1)...)
		}, ErrFormat},
		{"repeated name", func(m *Manifest, files map[string][]byte) {
			files[vocabularyFile] = bytes.Replace(files[vocabularyFile], []byte("u2"), []byte("u1"), 1)
		}, ErrFormat},
		{"unquoted name", func(m *Manifest, files map[string][]byte) {
			files[vocabularyFile] = bytes.Replace(files[vocabularyFile], []byte(`"u2"`), []byte(`{}`), 1)
		}, ErrFormat},
		{"other size in the manifest", func(m *Manifest, files map[string][]byte) { m.NumBasis = 2 }, ErrFormat},
		{"negative size", func(m *Manifest, files map[string][]byte) { m.NumBasis = -1 }, ErrFormat},
		{"size product overflows", func(m *Manifest, files map[string][]byte) {
			m.NumFeatures, m.NumBasis = math.MaxInt32, math.MaxInt32
		}, ErrFormat},
		{"other kernel", func(m *Manifest, files map[string][]byte) { m.Kernel = Homogeneous }, ErrGolden},
		{"kernel of degree 3 in an older format", func(m *Manifest, files map[string][]byte) { m.Degree = 3 }, ErrFormat},
		{"kernel of degree 3", func(m *Manifest, files map[string][]byte) { m.Degree, m.Format = 3, 5 },
			ErrGolden},
		{"kernel of degree 4", func(m *Manifest, files map[string][]byte) { m.Degree, m.Format = 4, 5 },
			ErrFormat},
		{"kernel of no degree", func(m *Manifest, files map[string][]byte) { m.Degree = 0 }, ErrFormat},
		{"weights of lists in format 5", func(m *Manifest, files map[string][]byte) {
			m.Schema.MultiWeights, m.Format = []string{WeightMean}, 5
		}, ErrFormat},
		{"next format", func(m *Manifest, files map[string][]byte) { m.Format = FormatVersion + 1 }, ErrFormat},
		{"of another model", func(m *Manifest, files map[string][]byte) { m.Model = "n" }, ErrDigest},
		{"of another version", func(m *Manifest, files map[string][]byte) { m.Version = 2 }, ErrDigest},
		{"one file less", func(m *Manifest, files map[string][]byte) { m.Files = m.Files[:2] }, ErrFormat},
		{"another file name", func(m *Manifest, files map[string][]byte) { m.Files[2].Name = "../../../golden.jsonl" },
			ErrFormat},
		{"file of negative size", func(m *Manifest, files map[string][]byte) {
			m.Files[2].Bytes = -1
			delete(files,
				goldenFile)
		}, ErrFormat},
		{"file of enormous size", func(m *Manifest, files map[string][]byte) {
			m.Files[2].Bytes = 1 << 62
			delete(files,
				goldenFile)
		}, ErrFormat},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, dir := storeOf(t, 1)
			forge(t, dir, test.change)
			if m, err := Open(dir, "m", Selector{Version: 1}); m != nil || !errors.Is(err, test.want) {
				t.Errorf("by version: %v, want %v", err, test.want)
			}
			if m, err := Open(dir, "m", Selector{Alias: Latest}); m != nil ||
				!errors.Is(err, ErrDigest) && !errors.Is(err, ErrFormat) {
				t.Errorf("by alias, which pins the manifest: %v, want ErrDigest", err)
			}
		})
	}
	_, dir := storeOf(t, 1)
	forge(t, dir, func(*Manifest, map[string][]byte) {})
	if _, err := Open(dir, "m", Selector{Version: 1}); err != nil {
		t.Errorf("nothing changed: %v", err) // or the table above proves nothing
	}
}

func TestMixedVersionsRefused(t *testing.T) {
	store, dir := storeOf(t, 1)
	other := testContents(small)
	other.Bias[0]++
	for i := range other.Golden {
		other.Golden[i].Outputs = nil
	}
	_, err := store.Publish(t.Context(), "m", other)
	must(t, err)
	b, err := os.ReadFile(filepath.Join(dir, "m", "1", tensorsFile))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "m", "2", tensorsFile), b, 0o644))
	if _, err := Open(dir, "m", Selector{Version: 2}); !errors.Is(err, ErrDigest) {
		t.Errorf("parameters of version 1 in version 2: %v, want ErrDigest", err)
	}
}

// The payload digest is what two training runs are compared by: a reader does not take it on trust.
func TestWrongPayloadDigestRefused(t *testing.T) {
	store, dir := storeOf(t, 1)
	m, err := store.Manifest("m", 1)
	must(t, err)
	m.PayloadDigest = "sha256:" + hexSum(nil)
	b, err := m.encode()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "m", "1", ManifestFile), b, 0o644))
	if _, err := Open(dir, "m", Selector{Version: 1}); !errors.Is(err, ErrDigest) {
		t.Errorf("Open: %v, want ErrDigest", err)
	}
}

func TestManifestIgnoresUnknownFields(t *testing.T) {
	m := newManifest(testContents(small))
	m.Model, m.Version = "m", 1
	b, err := m.encode()
	must(t, err)
	body := bytes.Replace(unsealed(b), []byte(`"model"`), []byte(`"from_the_future": {"a": [1]}, "model"`), 1)
	later := sealed(body)
	if got, err := decodeManifest(later); err != nil || got.Model != "m" {
		t.Errorf("decodeManifest: %v, want the known fields", err)
	}
	var plain map[string]any
	if err := json.Unmarshal(b, &plain); err != nil || plain["manifest_digest"] != m.Digest ||
		plain["objective"] != nil {
		t.Errorf("as plain JSON: %v, digest %v, objective %v", err, plain["manifest_digest"], plain["objective"])
	}
}

// What testdata/v1 was published with; the package in python finds the same outputs.
const firstPayload = "sha256:22593e46aaddf46cf9bdea1b363798f2b307e1b13ddd9e81e1253ea1150ce37e"

var firstOutputs = []float64{0.703125, -0.8125}

// testdata/v1 was written by the first build that had this format. It is never written again: its bytes are the
// promise.
func TestFirstFormat(t *testing.T) {
	m, err := Open("testdata/v1", "ratings", Selector{})
	if err != nil {
		t.Fatal(err)
	}
	manifest := m.Manifest()
	if got, want := manifest.PayloadDigest, firstPayload; got != want {
		t.Errorf("payload_digest %s, want %s", got, want)
	}
	if got, err := PayloadDigest(m.Contents()); err != nil || got != firstPayload {
		t.Errorf(
			"this build gives the contents the digest %s, %v, want %s: they would be published under another one",
			got,
			err,
			firstPayload,
		)
	}
	in, err := m.Schema().
		InputFromMap(map[string]any{"user": "u1", "item": "i2", "tags": []any{"new", "old"}, "age": 50.0})
	must(t, err)
	p, err := m.Predict(&in)
	must(t, err)
	for o, want := range firstOutputs {
		if math.Abs(p.Outputs[o]-want) > 1e-15 {
			t.Errorf("output %d: %g, want %g", o, p.Outputs[o], want)
		}
	}
}

// decodeBoth reads parameters and names, as Trust does.
func decodeBoth(l *Loader, tensors, names []byte) error {
	if err := l.Form(); err != nil {
		return err
	}
	return errors.Join(l.Parameters(tensors), l.Names(names))
}

func FuzzManifest(f *testing.F) {
	m := newManifest(testContents(small))
	b, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(unsealed(b))
	f.Add([]byte(`{"format":1,"k":null,`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := decodeManifest(sealed(body))
		if err != nil {
			if !isRefusal(err) {
				t.Error(err)
			}
			return
		}
		if err := decodeBoth(NewLoader(&m, "", time.Time{}), nil, nil); !isRefusal(err) {
			t.Errorf("decode of empty files: %v", err)
		}
	})
}

func FuzzFiles(f *testing.F) {
	c := testContents(small)
	m, err := NewModel(c)
	if err != nil {
		f.Fatal(err)
	}
	tensors, err1 := encodeTensors(c)
	names, err2 := encodeVocabulary(c)
	golden, err3 := encodeGolden(m)
	if err := errors.Join(err1, err2, err3); err != nil {
		f.Fatal(err)
	}
	f.Add(tensors, names, golden)
	f.Add(tensors, []byte(`["user","u"]`+"\n"), []byte(`{"event":{},"outputs":[1],"prediction":null}`))
	f.Fuzz(func(t *testing.T, tensors, names, golden []byte) {
		manifest := m.Manifest()
		read := NewLoader(&manifest, "", time.Time{})
		err := decodeBoth(read, tensors, names)
		if err == nil {
			err = read.Golden(golden)
		}
		if err != nil {
			if !isRefusal(err) && !errors.Is(err, ErrGolden) {
				t.Error(err)
			}
			return
		}
		if again, err := encodeVocabulary(read.Model().Contents()); err != nil ||
			!bytes.Contains(names, []byte(`\`)) && !bytes.Equal(again, names) {
			t.Errorf("accepted the vocabulary %q, which is %q: %v", names, again, err)
		}
		if again, err := encodeTensors(read.Model().Contents()); err != nil || !bytes.Equal(again, tensors) {
			t.Errorf("accepted parameters that encode otherwise: %v", err)
		}
	})
}
