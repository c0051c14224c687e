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
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/publish"
	"github.com/refitd/refitd/snapshot/scorer"
	"github.com/refitd/refitd/snapshot/verify"
)

var versionFiles = []string{
	"1/" + disk.ManifestFile,
	"1/" + disk.TensorsFile,
	"1/" + disk.VocabularyFile,
	"1/" + disk.GoldenFile,
	"aliases/" + pointer.Latest,
}

func TestEveryBitFlipRefused(t *testing.T) {
	tier.NotUnderRace(t)
	t.Parallel()
	_, dir := storeOf(t, 1)
	for _, name := range versionFiles {
		f, err := os.OpenFile(filepath.Join(dir, "m", name), os.O_RDWR, 0)
		snapshottest.Must(t, err)
		defer f.Close()
		content, err := os.ReadFile(f.Name())
		snapshottest.Must(t, err)
		for i, b := range content {
			for bit := range 8 {
				if bit != i%8 && !tier.Asked(tier.Long) {
					continue // one bit of each byte
				}
				_, err := f.WriteAt([]byte{b ^ 1<<bit}, int64(i))
				snapshottest.Must(t, err)
				if m, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest}); m != nil || !snapshottest.IsRefusal(err) {
					t.Fatalf("%s, byte %d, bit %d: %v", name, i, bit, err)
				}
			}
			_, err := f.WriteAt([]byte{b}, int64(i))
			snapshottest.Must(t, err)
		}
	}
	if _, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest}); err != nil {
		t.Errorf("restored: %v", err)
	}
}

func TestEveryTruncationRefused(t *testing.T) {
	t.Parallel()
	_, dir := storeOf(t, 1)
	for _, name := range versionFiles {
		path := filepath.Join(dir, "m", name)
		content, err := os.ReadFile(path)
		snapshottest.Must(t, err)
		refused := func(what string) {
			if m, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest}); m != nil || !snapshottest.IsRefusal(err) {
				t.Fatalf("%s %s: %v", name, what, err)
			}
		}
		step := tier.Size(5, 1)
		for n := len(content) - 1; n >= 0; n -= step {
			snapshottest.Must(t, os.Truncate(path, int64(n)))
			refused(fmt.Sprintf("cut off at %d", n))
		}
		snapshottest.Must(t, os.WriteFile(path, append(bytes.Clone(content), '\n'), 0o644))
		refused("with one more byte")
		snapshottest.Must(t, os.Truncate(path, 1<<40)) // sparse: refused without reading or allocating a terabyte
		refused("of a terabyte")
		snapshottest.Must(t, os.Remove(path))
		refused("gone")
		snapshottest.Must(t, os.WriteFile(path, content, 0o644))
	}
}

// forge replaces files of version 1 and writes a manifest that vouches for them, as somebody could who knows the
// format.
func forge(t *testing.T, dir string, change func(m *format.Manifest, files map[string][]byte)) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, "m", "1", name) }
	m, err := publish.NewStore(dir).Manifest("m", 1)
	snapshottest.Must(t, err)
	files := map[string][]byte{}
	for _, f := range m.Files {
		files[f.Name], err = os.ReadFile(at(f.Name))
		snapshottest.Must(t, err)
	}
	change(&m, files)
	for i, f := range m.Files {
		b, ok := files[f.Name]
		if !ok {
			continue
		}
		m.Files[i].Bytes, m.Files[i].SHA256 = int64(len(b)), disk.HexSum(b)
		snapshottest.Must(t, os.WriteFile(at(f.Name), b, 0o644))
	}
	m.PayloadDigest, err = m.DigestPayload(m.Files[0].SHA256, m.Files[1].SHA256)
	snapshottest.Must(t, err)
	b, err := m.Encode()
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(at(disk.ManifestFile), b, 0o644))
}

// Attacks that every digest vouches for.
func TestForgedVersionsRefused(t *testing.T) {
	t.Parallel()
	header := func(change func(text string) string) func(*format.Manifest, map[string][]byte) {
		return func(m *format.Manifest, files map[string][]byte) {
			b := files[disk.TensorsFile]
			n := binary.LittleEndian.Uint64(b)
			text := change(string(b[8 : 8+n]))
			files[disk.TensorsFile] = append(
				append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...),
				b[8+n:]...)
		}
	}
	length := func(n uint64) func(*format.Manifest, map[string][]byte) {
		return func(m *format.Manifest, files map[string][]byte) {
			binary.LittleEndian.PutUint64(files[disk.TensorsFile], n)
		}
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
		change func(m *format.Manifest, files map[string][]byte)
		want   error
	}{
		{"header length 0", length(0), disk.ErrFormat},
		{"header length 2^32", length(1 << 32), disk.ErrFormat},
		{"header length 2^63", length(1 << 63), disk.ErrFormat},
		{"header length beyond the file", length(1 << 20), disk.ErrFormat},
		{"overlapping offsets", header(replace(`"data_offsets":[80,112]`, `"data_offsets":[72,104]`)), disk.ErrFormat},
		{"gap between offsets", header(replace(`"data_offsets":[80,112]`, `"data_offsets":[88,120]`)), disk.ErrFormat},
		{"negative offset", header(replace(`"data_offsets":[0,80]`, `"data_offsets":[-8,72]`)), disk.ErrFormat},
		{"shape product overflows", header(replace(`"shape":[10,1]`, `"shape":[9223372036854775807,4]`)), disk.ErrFormat},
		{"another type", header(replace("F64", "F32")), disk.ErrFormat},
		{"duplicate name", header(replace("weights", "basis")), disk.ErrFormat},
		{"unknown tensor", header(replace("weights", "weightz")), disk.ErrFormat},
		{"numbers left over", func(m *format.Manifest, files map[string][]byte) {
			files[disk.TensorsFile] = append(files[disk.TensorsFile], make([]byte, 8)...)
		}, disk.ErrFormat},
		{"one number too few", func(m *format.Manifest, files map[string][]byte) {
			files[disk.TensorsFile] = files[disk.TensorsFile][:len(files[disk.TensorsFile])-8]
		}, disk.ErrFormat},
		{"empty file", func(m *format.Manifest, files map[string][]byte) { files[disk.TensorsFile] = nil }, disk.ErrFormat},
		{"NaN parameter", func(m *format.Manifest, files map[string][]byte) {
			b := files[disk.TensorsFile]
			binary.LittleEndian.PutUint64(b[len(b)-8:], math.Float64bits(math.NaN()))
		}, disk.ErrFormat},
		{"other parameter", func(m *format.Manifest, files map[string][]byte) {
			b := files[disk.TensorsFile]
			binary.LittleEndian.PutUint64(b[len(b)-8:], math.Float64bits(3))
		}, disk.ErrGolden},
		{"swapped names", func(m *format.Manifest, files map[string][]byte) {
			files[disk.VocabularyFile] = bytes.Replace(bytes.Replace(bytes.Replace(files[disk.VocabularyFile], []byte("u1"),
				[]byte("u0"),
				1), []byte("u3"),
				[]byte("u1"), 1), []byte("u0"), []byte("u3"), 1)
		}, disk.ErrGolden},
		{"other prediction", func(m *format.Manifest, files map[string][]byte) {
			files[disk.GoldenFile] = bytes.Replace(files[disk.GoldenFile], []byte(`"prediction":`), []byte(`"prediction":1`), 1)
		}, disk.ErrGolden},
		{"no golden events", func(m *format.Manifest, files map[string][]byte) { files[disk.GoldenFile] = nil },
			disk.ErrFormat},
		{"golden event of another kind", func(m *format.Manifest, files map[string][]byte) {
			files[disk.GoldenFile] = []byte(
				`{"event":{"user":1.5}}`)
		}, disk.ErrFormat},
		{"golden event not JSON", func(m *format.Manifest, files map[string][]byte) {
			files[disk.GoldenFile] = []byte(
				"{\n")
		},
			disk.ErrFormat},
		{"vocabulary not UTF-8", func(m *format.Manifest, files map[string][]byte) { files[disk.VocabularyFile][9] = 0xff },
			disk.ErrFormat},
		{"vocabulary without its last newline", func(m *format.Manifest, files map[string][]byte) {
			files[disk.VocabularyFile] = bytes.TrimSuffix(files[disk.VocabularyFile], []byte("\n"))
		}, disk.ErrFormat},
		{"vocabulary with one name more", func(m *format.Manifest, files map[string][]byte) {
			files[disk.VocabularyFile] = append(files[disk.VocabularyFile], `["tags","c"]`+"\n"...)
		}, disk.ErrFormat},
		{"fields out of order", func(m *format.Manifest, files map[string][]byte) {
			files[disk.VocabularyFile] = append([]byte(`["tags","a"]`+"\n"), bytes.Replace(files[disk.VocabularyFile], []byte(
				`["tags","a"]`+"\n"), nil, 1)...)
		}, disk.ErrFormat},
		{"repeated name", func(m *format.Manifest, files map[string][]byte) {
			files[disk.VocabularyFile] = bytes.Replace(files[disk.VocabularyFile], []byte("u2"), []byte("u1"), 1)
		}, disk.ErrFormat},
		{"unquoted name", func(m *format.Manifest, files map[string][]byte) {
			files[disk.VocabularyFile] = bytes.Replace(files[disk.VocabularyFile], []byte(`"u2"`), []byte(`{}`), 1)
		}, disk.ErrFormat},
		{"other size in the manifest", func(m *format.Manifest, files map[string][]byte) { m.NumBasis = 2 }, disk.ErrFormat},
		{"negative size", func(m *format.Manifest, files map[string][]byte) { m.NumBasis = -1 }, disk.ErrFormat},
		{"size product overflows", func(m *format.Manifest, files map[string][]byte) {
			m.NumFeatures, m.NumBasis = math.MaxInt32, math.MaxInt32
		}, disk.ErrFormat},
		{"other kernel", func(m *format.Manifest, files map[string][]byte) { m.Kernel = format.Homogeneous }, disk.ErrGolden},
		{"kernel of degree 3 in an older format", func(m *format.Manifest, files map[string][]byte) { m.Degree = 3 },
			disk.ErrFormat},
		{"kernel of degree 3", func(m *format.Manifest, files map[string][]byte) { m.Degree, m.Format = 3, 5 },
			disk.ErrGolden},
		{"kernel of degree 4", func(m *format.Manifest, files map[string][]byte) { m.Degree, m.Format = 4, 5 },
			disk.ErrFormat},
		{"kernel of no degree", func(m *format.Manifest, files map[string][]byte) { m.Degree = 0 }, disk.ErrFormat},
		{"weights of lists in format 5", func(m *format.Manifest, files map[string][]byte) {
			m.Schema.MultiWeights, m.Format = []string{format.WeightMean}, 5
		}, disk.ErrFormat},
		{"next format", func(m *format.Manifest, files map[string][]byte) { m.Format = format.FormatVersion + 1 },
			disk.ErrFormat},
		{"of another model", func(m *format.Manifest, files map[string][]byte) { m.Model = "n" }, disk.ErrDigest},
		{"of another version", func(m *format.Manifest, files map[string][]byte) { m.Version = 2 }, disk.ErrDigest},
		{"one file less", func(m *format.Manifest, files map[string][]byte) { m.Files = m.Files[:2] }, disk.ErrFormat},
		{"another file name", func(m *format.Manifest, files map[string][]byte) { m.Files[2].Name = "../../../golden.jsonl" },
			disk.ErrFormat},
		{"file of negative size", func(m *format.Manifest, files map[string][]byte) {
			m.Files[2].Bytes = -1
			delete(files,
				disk.GoldenFile)
		}, disk.ErrFormat},
		{"file of enormous size", func(m *format.Manifest, files map[string][]byte) {
			m.Files[2].Bytes = 1 << 62
			delete(files,
				disk.GoldenFile)
		}, disk.ErrFormat},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, dir := storeOf(t, 1)
			forge(t, dir, test.change)
			if m, err := Open(dir, "m", verify.Selector{Version: 1}); m != nil || !errors.Is(err, test.want) {
				t.Errorf("by version: %v, want %v", err, test.want)
			}
			if m, err := Open(dir, "m", verify.Selector{Alias: pointer.Latest}); m != nil ||
				!errors.Is(err, disk.ErrDigest) && !errors.Is(err, disk.ErrFormat) {
				t.Errorf("by alias, which pins the manifest: %v, want ErrDigest", err)
			}
		})
	}
	_, dir := storeOf(t, 1)
	forge(t, dir, func(*format.Manifest, map[string][]byte) {})
	if _, err := Open(dir, "m", verify.Selector{Version: 1}); err != nil {
		t.Errorf("nothing changed: %v", err) // or the table above proves nothing
	}
}

func TestMixedVersionsRefused(t *testing.T) {
	store, dir := storeOf(t, 1)
	other := snapshottest.TestContents(snapshottest.Small)
	other.Bias[0]++
	for i := range other.Golden {
		other.Golden[i].Outputs = nil
	}
	_, err := store.Publish(t.Context(), "m", other)
	snapshottest.Must(t, err)
	b, err := os.ReadFile(filepath.Join(dir, "m", "1", disk.TensorsFile))
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(filepath.Join(dir, "m", "2", disk.TensorsFile), b, 0o644))
	if _, err := Open(dir, "m", verify.Selector{Version: 2}); !errors.Is(err, disk.ErrDigest) {
		t.Errorf("parameters of version 1 in version 2: %v, want ErrDigest", err)
	}
}

// The payload digest is what two training runs are compared by: a reader does not take it on trust.
func TestWrongPayloadDigestRefused(t *testing.T) {
	store, dir := storeOf(t, 1)
	m, err := store.Manifest("m", 1)
	snapshottest.Must(t, err)
	m.PayloadDigest = "sha256:" + disk.HexSum(nil)
	b, err := m.Encode()
	snapshottest.Must(t, err)
	snapshottest.Must(t, os.WriteFile(filepath.Join(dir, "m", "1", disk.ManifestFile), b, 0o644))
	if _, err := Open(dir, "m", verify.Selector{Version: 1}); !errors.Is(err, disk.ErrDigest) {
		t.Errorf("Open: %v, want ErrDigest", err)
	}
}

func TestManifestIgnoresUnknownFields(t *testing.T) {
	m := format.NewManifest(snapshottest.TestContents(snapshottest.Small))
	m.Model, m.Version = "m", 1
	b, err := m.Encode()
	snapshottest.Must(t, err)
	body := bytes.Replace(unsealed(b), []byte(`"model"`), []byte(`"from_the_future": {"a": [1]}, "model"`), 1)
	later := sealed(body)
	if got, err := format.DecodeManifest(later); err != nil || got.Model != "m" {
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
	m, err := Open("testdata/v1", "ratings", verify.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	manifest := m.Manifest()
	if got, want := manifest.PayloadDigest, firstPayload; got != want {
		t.Errorf("payload_digest %s, want %s", got, want)
	}
	if got, err := format.PayloadDigest(m.Contents()); err != nil || got != firstPayload {
		t.Errorf("this build gives the contents the digest %s, %v, want %s: they would be published under another one",
			got, err, firstPayload)
	}
	in, err := m.Schema().
		InputFromMap(map[string]any{"user": "u1", "item": "i2", "tags": []any{"new", "old"}, "age": 50.0})
	snapshottest.Must(t, err)
	p, err := m.Predict(&in)
	snapshottest.Must(t, err)
	for o, want := range firstOutputs {
		if math.Abs(p.Outputs[o]-want) > 1e-15 {
			t.Errorf("output %d: %g, want %g", o, p.Outputs[o], want)
		}
	}
}

// decodeBoth reads parameters and names, as Trust does.
func decodeBoth(l *scorer.Loader, tensors, names []byte) error {
	if err := l.Form(); err != nil {
		return err
	}
	return errors.Join(l.Parameters(tensors), l.Names(names))
}

func FuzzManifest(f *testing.F) {
	m := format.NewManifest(snapshottest.TestContents(snapshottest.Small))
	b, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(unsealed(b))
	f.Add([]byte(`{"format":1,"k":null,`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := format.DecodeManifest(sealed(body))
		if err != nil {
			if !snapshottest.IsRefusal(err) {
				t.Error(err)
			}
			return
		}
		if err := decodeBoth(scorer.NewLoader(&m, "", time.Time{}), nil, nil); !snapshottest.IsRefusal(err) {
			t.Errorf("decode of empty files: %v", err)
		}
	})
}

func FuzzFiles(f *testing.F) {
	c := snapshottest.TestContents(snapshottest.Small)
	m, err := scorer.NewModel(c)
	if err != nil {
		f.Fatal(err)
	}
	tensors, err1 := format.EncodeTensors(c)
	names, err2 := format.EncodeVocabulary(c)
	golden, err3 := scorer.EncodeGolden(m)
	if err := errors.Join(err1, err2, err3); err != nil {
		f.Fatal(err)
	}
	f.Add(tensors, names, golden)
	f.Add(tensors, []byte(`["user","u"]`+"\n"), []byte(`{"event":{},"outputs":[1],"prediction":null}`))
	f.Fuzz(func(t *testing.T, tensors, names, golden []byte) {
		manifest := m.Manifest()
		read := scorer.NewLoader(&manifest, "", time.Time{})
		err := decodeBoth(read, tensors, names)
		if err == nil {
			err = read.Golden(golden)
		}
		if err != nil {
			if !snapshottest.IsRefusal(err) && !errors.Is(err, disk.ErrGolden) {
				t.Error(err)
			}
			return
		}
		if again, err := format.EncodeVocabulary(read.Model().Contents()); err != nil ||
			!bytes.Contains(names, []byte(`\`)) && !bytes.Equal(again, names) {
			t.Errorf("accepted the vocabulary %q, which is %q: %v", names, again, err)
		}
		if again, err := format.EncodeTensors(read.Model().Contents()); err != nil || !bytes.Equal(again, tensors) {
			t.Errorf("accepted parameters that encode otherwise: %v", err)
		}
	})
}
