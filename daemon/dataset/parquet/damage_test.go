package parquet

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// readAll reads a file, of which some rows at most.
func readAll(content []byte) error {
	f, err := Open(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return err
	}
	rows := f.Rows(nil)
	for n := 0; n < 1000; n++ {
		if err := rows.Next(); err != nil {
			return err
		}
		for i := range f.Columns {
			values := rows.Values(i)
			for j := range values {
				if !values[j].Null {
					f.Columns[i].Text(&values[j])
				}
			}
		}
	}
	return nil
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func smallFiles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/small/*.parquet")
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, path := range paths {
		if files[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestDamagedFiles: wherever a byte is another one, reading ends with rows or an error, and takes no more memory
// than a small file may.
func TestDamagedFiles(t *testing.T) {
	const most = 32 << 20
	for path, content := range smallFiles(t) {
		for at := 0; at < len(content); at += 41 {
			for _, flip := range []byte{0x01, 0xff} {
				damaged := slices.Clone(content)
				damaged[at] ^= flip
				if bytes := allocated(func() { _ = readAll(damaged) }); bytes > most {
					t.Errorf("%s with byte %d changed by %#x: %d bytes are allocated", path, at, flip, bytes)
				}
			}
		}
		for cut := 0; cut < len(content); cut += 101 {
			if err := readAll(content[:cut]); err == nil {
				t.Errorf("%s is read after %d of %d bytes", path, cut, len(content))
			}
		}
	}
}

// TestStatedSizes: a page that states far more bytes than it has is refused before memory is taken for them.
func TestStatedSizes(t *testing.T) {
	for codec, packed := range map[int32][]byte{
		codecNone:   {1, 2, 3},
		codecSnappy: {0x80, 0x80, 0x80, 0xc0, 0x01, 1, 2}, // states 384 MiB
		codecGzip:   {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1, 0, 0, 0xff, 0xff},
		codecBrotli: {0x0b, 0x01, 0x80, 'a', 'b', 'c', 3},
		codecLZ4:    {0x10, 'a', 0, 0, 0, 0, 0, 0, 0},
		codecZstd:   {0x28, 0xb5, 0x2f, 0xfd, 0xa4, 0, 0, 0, 0x18, 1, 0, 0, 0, 0, 0, 0}, // states 384 MiB
		codecLZ4Raw: {0x10, 'a'},
	} {
		f := &File{r: bytes.NewReader(packed), size: int64(len(packed))}
		h := &pageHeader{kind: dataPage, compressed: int32(len(packed)), uncompressed: 384 << 20}
		var err error
		bytes := allocated(func() { _, err = f.content(h, 0, codec) })
		if err == nil || bytes > 4<<20 {
			t.Errorf("%s: %v, %d bytes are allocated", codecName(codec), err, bytes)
		}
	}
}

// TestHeldPages: what is open at a time is bounded over all columns.
func TestHeldPages(t *testing.T) {
	f := &File{}
	if err := f.hold(maxHeld); err != nil {
		t.Error(err)
	}
	if err := f.hold(1); err == nil || !strings.Contains(err.Error(),
		"512 MiB: write the file with smaller pages or row groups") {
		t.Error(err)
	}
	if err := f.hold(-maxHeld); err != nil || f.held != 0 {
		t.Error(err, f.held)
	}
}

// TestLongList: a run that states a billion values of one list takes no memory for them.
func TestLongList(t *testing.T) {
	r := &reader{file: &File{}, leaf: &leaf{definitions: 1, repetitions: 1, repeatedAt: 1, definitionBits: 1, bits: 1},
		left:        1 << 30,
		repetitions: hybrid{b: []byte{2, 0, 0x80, 0x80, 0x80, 0x80, 8, 1}, width: 1},
		definitions: hybrid{b: []byte{0x80, 0x80, 0x80, 0x80, 8, 1}, width: 1},
		decoder: &indexed{places: hybrid{b: []byte{0x80, 0x80, 0x80, 0x80, 8}}, of: &dictionary{leaf: &leaf{width: 4},
			b: make([]byte, 4), n: 1}}}
	if _, _, err := r.row(nil); err == nil || !strings.Contains(err.Error(), "a list has more than") {
		t.Error(err)
	}
}

// TestRefusals: what cannot be read is refused by its name, and says what to do.
func TestRefusals(t *testing.T) {
	file := smallFiles(t)["testdata/small/pyarrow-lz4-plain-1.0-1048576.parquet"]
	change := func(change func(c *chunk)) error {
		f, err := Open(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return err
		}
		change(&f.groups[0].chunks[0])
		return f.Rows(nil).Next()
	}
	many := &File{NumRows: 1 << 30, groups: []rowGroup{{rows: 1 << 30}}, size: 5700}
	encrypted := append(slices.Clone(file[:len(file)-4]), "PARE"...)
	for want, err := range map[string]error{
		"an encrypted Parquet file: write it without encryption": readAll(encrypted),
		"it does not end with PAR1: it was cut off":              readAll(file[:len(file)-9]),
		"no Parquet file: it does not begin with PAR1": readAll(append([]byte("user"),
			file[4:]...)),
		"no Parquet file: it has 4 bytes":              readAll(file[:4]),
		"it states 1073741824 rows and has 5700 bytes": many.checkGroups(),
		`column "bool" in row group 1: a page compressed by LZO: not supported: write`: change(func(
			c *chunk) {
			c.codec = codecLZO
		}),
		"a page compressed by codec 12: not supported": change(func(c *chunk) { c.codec = 12 }),
		"it is encrypted: write the file without":      change(func(c *chunk) { c.encrypted = true }),
		"its values are in another file":               change(func(c *chunk) { c.elsewhere = true }),
		"it states 7 values for 20 rows":               change(func(c *chunk) { c.values = 7 }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	l := &leaf{physical: typeInt64, width: 8}
	if _, err := l.newDecoder(encodingDeltaBytes, nil, nil); err == nil || !strings.Contains(err.Error(),
		"the encoding DELTA_BYTE_ARRAY is not supported") {
		t.Error(err)
	}
	if _, _, err := levelsOf(nil, encodingBitPacked, 1); err == nil || !strings.Contains(err.Error(),
		"levels by BIT_PACKED are not supported") {
		t.Error(err)
	}
}

// FuzzFile: whatever a file holds, reading it ends.
func FuzzFile(f *testing.F) {
	for _, content := range smallFiles(f) {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) { _ = readAll(content) })
}
