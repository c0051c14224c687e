package format_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/internal/disk"
	"github.com/refitd/refitd/snapshot/internal/snapshottest"
)

// expectedManifest is a manifest with one field set, and the payload digest that its fields and files have.
type expectedManifest struct {
	Field         string `json:"field"`
	Manifest      []byte `json:"manifest"`
	PayloadDigest string `json:"payload_digest"`
}

// oddText has every character that JSON may escape, and some that take several bytes.
var oddText = func() string {
	var b strings.Builder
	for c := rune(1); c < 0x80; c++ {
		b.WriteRune(c)
	}
	return b.String() + "é\u2028\u2029\ufffd😀"
}()

// oddFloats are numbers whose decimals are unusual.
var oddFloats = []float64{
	0.1,
	math.Copysign(0, -1),
	-1,
	100,
	1e-6,
	1e-7,
	5e-324,
	1e20,
	1e21,
	123456789012345680000,
	-math.MaxFloat64,
	1 << 53,
}

// valuesOf are values other than zero for the fields of a type; a named type takes those of its kind.
var valuesOf = map[reflect.Type][]any{
	reflect.TypeFor[string]():              {oddText, "user"},
	reflect.TypeFor[float64]():             boxed(oddFloats),
	reflect.TypeFor[int]():                 {3, math.MaxInt32},
	reflect.TypeFor[int32]():               {3, math.MaxInt32},
	reflect.TypeFor[int64]():               {3, math.MaxInt64},
	reflect.TypeFor[uint64]():              {3, uint64(math.MaxUint64)},
	reflect.TypeFor[bool]():                {true},
	reflect.TypeFor[time.Time]():           {snapshottest.Created},
	reflect.TypeFor[[]string]():            {[]string{"user", oddText}},
	reflect.TypeFor[[][]string]():          {[][]string{{"user", oddText}, {}}},
	reflect.TypeFor[[]float64]():           {oddFloats},
	reflect.TypeFor[[]int]():               {[]int{1, 0, -1}},
	reflect.TypeFor[[]format.MapScaling](): {[]format.MapScaling{}, []format.MapScaling{{Center: -1, Scale: 1e-7}}},
}

func boxed[T any](list []T) (values []any) {
	for _, v := range list {
		values = append(values, v)
	}
	return values
}

// leaf is a field without fields below it: its name, the fields on the way to it, and the values to try.
type leaf struct {
	name   string
	path   []int
	values []any
}

// leavesOf returns the leaves of a type of struct, those of the structs in it included.
func leavesOf(t *testing.T, typ reflect.Type, name string, path []int) (list []leaf) {
	t.Helper()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		at, inner := slices.Concat(path, []int{i}), f.Type
		name := name + "." + f.Name
		values, ok := valuesOf[inner]
		for !ok && (inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map) {
			inner = inner.Elem()
			values, ok = valuesOf[inner]
		}
		for plain, v := range valuesOf {
			if !ok && inner.Kind() != reflect.Struct && plain.Kind() == inner.Kind() && plain.PkgPath() == "" {
				values, ok = v, true
			}
		}
		switch {
		case ok:
			list = append(list, leaf{name, at, values})
		case inner.Kind() == reflect.Struct:
			list = append(list, leavesOf(t, inner, name, at)...)
		default:
			t.Fatalf("%s: no values for fields of type %s: add some to valuesOf", name, inner)
		}
	}
	return list
}

// set sets a leaf below a value. It makes what pointers on the way point to, and an element of each list and map.
func (l leaf) set(v reflect.Value, path []int, value any) {
	switch {
	case len(path) == 0 && reflect.TypeOf(value).ConvertibleTo(v.Type()):
		v.Set(reflect.ValueOf(value).Convert(v.Type()))
	case v.Kind() == reflect.Struct:
		l.set(v.Field(path[0]), path[1:], value)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		l.set(v.Elem(), path, value)
	case v.Kind() == reflect.Slice:
		one := reflect.MakeSlice(v.Type(), max(1, v.Len()), max(1, v.Len()))
		reflect.Copy(one, v)
		v.Set(one)
		l.set(v.Index(0), path, value)
	case v.Kind() == reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		l.set(one, path, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(oddText), one)
	default:
		panic("snapshot: " + l.name + " takes no " + reflect.TypeOf(value).String())
	}
}

// plainManifest has what every manifest has.
func plainManifest() *format.Manifest {
	files := []format.File{
		{Name: disk.TensorsFile, Bytes: 1, SHA256: disk.HexSum([]byte("a"))},
		{Name: disk.VocabularyFile, Bytes: 2, SHA256: disk.HexSum([]byte("b"))},
		{Name: disk.GoldenFile, Bytes: 3, SHA256: disk.HexSum([]byte("c"))},
	}
	return &format.Manifest{Format: format.FormatVersion, Model: "m", Version: 1, Degree: 2, Files: files,
		Schema: format.Schema{Task: format.Binary, Label: "y", Categorical: []string{"user"}}}
}

// digestedManifest returns the bytes of a manifest, with its payload digest in it.
func digestedManifest(t *testing.T, field string, m *format.Manifest) expectedManifest {
	t.Helper()
	var err error
	m.PayloadDigest, err = m.DigestPayload(m.Files[0].SHA256, m.Files[1].SHA256)
	snapshottest.Must(t, err)
	b, err := m.Encode()
	snapshottest.Must(t, err)
	return expectedManifest{field, b, m.PayloadDigest}
}

// unset are leaves that cannot have any value: the format, and fields that a schema has to have.
var unset = []string{".Format", ".Schema.Derived.Name", ".Schema.Derived.Of"}

// manifestsOfEveryField sets each field of a manifest alone, to each of its values.
func manifestsOfEveryField(t *testing.T) (list []expectedManifest) {
	t.Helper()
	leaves := leavesOf(t, reflect.TypeFor[format.Manifest](), "", nil)
	for _, l := range leaves {
		for _, value := range l.values {
			if slices.Contains(unset, l.name) && value != "user" {
				continue
			}
			m := plainManifest()
			l.set(reflect.ValueOf(m).Elem(), l.path, value)
			list = append(list, digestedManifest(t, l.name, m))
		}
	}
	return list
}

// TestEveryFieldOfManifests: a manifest with any field set is read as it was written, and its payload digest covers the
// fields that scores depend on and no others. A field that is added to the schema changes the digest, or has to be
// named here.
func TestEveryFieldOfManifests(t *testing.T) {
	t.Parallel()
	plain := digestedManifest(t, "", plainManifest())
	scored := []string{".Kernel", ".Degree", ".Link", ".NumFeatures", ".NumOutputs", ".NumBasis", ".Files.SHA256"}
	for _, want := range manifestsOfEveryField(t) {
		m, err := format.DecodeManifest(want.Manifest)
		if err != nil {
			t.Errorf("%s: %v", want.Field, err)
			continue
		}
		got, err := m.DigestPayload(m.Files[0].SHA256, m.Files[1].SHA256)
		snapshottest.Must(t, err)
		if got != want.PayloadDigest {
			t.Errorf("%s: read with payload digest %s, written with %s:\n%s", want.Field, got, want.PayloadDigest,
				want.Manifest)
		}
		inSchema, _ := strings.CutPrefix(want.Field, ".Schema.")
		// That there are trees or tables is enough.
		covered := slices.Contains(scored, want.Field) || strings.HasPrefix(want.Field, ".Trees.") ||
			strings.HasPrefix(want.Field, ".Tables.") ||
			inSchema != want.Field && inSchema != "Optional" && !strings.HasPrefix(inSchema, "Derived.")
		if same := bytes.Equal(want.Manifest, plain.Manifest); !same &&
			covered != (want.PayloadDigest != plain.PayloadDigest) {
			t.Errorf("%s: the payload digest covers it: %t, want %t", want.Field, !covered, covered)
		}
	}
}

// TestPythonDigestsEveryField: the package in snapshottest.Python reads those manifests, too, and digests them to the
// same.
func TestPythonDigestsEveryField(t *testing.T) {
	b, err := json.Marshal(manifestsOfEveryField(t))
	snapshottest.Must(t, err)
	path := filepath.Join(t.TempDir(), "manifests.json")
	snapshottest.Must(t, os.WriteFile(path, b, 0o644))
	snapshottest.Python(t, "numpy", []string{"REFITD_MANIFESTS=" + path}, "-W", "error", "-m", "unittest",
		"tests.test_manifest")
}
