package dataset

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"

	"github.com/refitd/refitd/consumer/event"
)

// wide returns text in UTF-16.
func wide(text string, big, mark bool) string {
	var b []byte
	if mark {
		text = byteOrderMark + text
	}
	for _, u := range utf16.Encode([]rune(text)) {
		if lo, hi := byte(u), byte(u>>8); big {
			b = append(b, hi, lo)
		} else {
			b = append(b, lo, hi)
		}
	}
	return string(b)
}

// TestForms: files of text are read alike with a byte order mark, as UTF-16, compressed by bzip2, and with the
// line that says what separates cells.
func TestForms(t *testing.T) {
	const csv, json = "user,item\nü1,a\nu2,b\n", "{\"user\":\"ü1\",\"item\":\"a\"}\n{\"user\":\"u2\",\"item\":\"b\"}\n"
	bzip, err := base64.StdEncoding.DecodeString(
		"QlpoOTFBWSZTWR0pB1EAAAlZjAAQAAQwADIiHgAABAgAIAAhqGIyH6oKYAAeJjNBSDHU4L1/i7kinChIDpSDqIA=")
	if err != nil {
		t.Fatal(err)
	}
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	zstandard := w.EncodeAll([]byte(csv), nil)
	for name, c := range map[string]struct {
		text   string
		format Format
	}{
		"CSV with a mark":              {byteOrderMark + csv, CSV},
		"CSV in UTF-16":                {wide(csv, false, true), CSV},
		"CSV in UTF-16, big":           {wide(csv, true, true), CSV},
		"CSV in UTF-16 without a mark": {wide(csv, false, false), CSV},
		"CSV in big UTF-16, no mark":   {wide(csv, true, false), CSV},
		"CSV with a hint":              {"sep=|\nuser|item\nü1|a\nu2|b\n", CSV},
		"CSV with a quoted hint":       {byteOrderMark + "\"sep=\t\"\r\nuser\titem\r\nü1\ta\r\nu2\tb\r\n", CSV},
		"CSV by bzip2":                 {string(bzip), CSV},
		"CSV with a loud hint":         {"SEP=;\nuser;item\nü1;a\nu2;b\n", CSV},
		"CSV by returns":               {strings.ReplaceAll(csv, "\n", "\r"), CSV},
		"CSV by returns, marked":       {byteOrderMark + strings.ReplaceAll(csv, "\n", "\r"), CSV},
		"CSV by returns in UTF-16":     {wide(strings.ReplaceAll(csv, "\n", "\r"), false, true), CSV},
		"CSV by two returns and feed":  {strings.ReplaceAll(csv, "\n", "\r\r\n"), CSV},
		"JSON Lines by returns":        {strings.ReplaceAll(json, "\n", "\r"), JSONL},
		"zstd behind another frame":    {"\x5a\x2a\x4d\x18\x02\x00\x00\x00ab" + string(zstandard), CSV},
		"JSON Lines with a mark":       {byteOrderMark + json, JSONL},
		"JSON Lines in UTF-16":         {wide(json, false, true), JSONL},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ending := range []string{"", ".gz"} {
				if isCompressed([]byte(c.text)) && ending != "" {
					continue
				}
				path := write(t, "x"+ending, c.text)
				if format, err := Detect(path); err != nil || format != c.format {
					t.Fatalf("%s is taken for %s, %v", path, format, err)
				}
				records, skipped := scan(t, path, c.format, "user")
				want := []string{`{"user":"ü1","item":"a"}`, `{"user":"u2","item":"b"}`}
				if got := values(records); !slices.Equal(got, want) || skipped.Lines != 0 {
					t.Errorf("%q, %+v", got, skipped)
				}
				if p, err := ReadProfile(path, "", 10); err != nil || p.Rows != 2 || p.Columns[0].Name != "user" {
					t.Errorf("profile %+v, %v", p, err)
				}
			}
		})
	}
	records, skipped := scan(t, write(t, "x.csv", "sep=;\na;b\n1;2\n3\n"), CSV, "a")
	if len(records) != 1 || skipped.Causes[0].First[0] != 4 {
		t.Errorf("lines are counted from the first one of the file: %+v", skipped)
	}
	records, skipped = scan(t, write(t, "returns.csv", "a,b\r1,\"x\ry\"\r2,3\r4\r"), CSV, "a")
	if len(records) != 2 || skipped.Continued != 1 || skipped.Causes[0].First[0] != 5 {
		t.Errorf("lines by returns are counted: %+v", skipped)
	}
	records, _ = scan(t, write(t, "within.csv", "a,\"b\rc\"\r\n1,\"x\ry\"\r\n"), CSV, "a")
	if len(records) != 1 || string(records[0].Value) != `{"a":1,"b\u000dc":"x\u000dy"}` {
		t.Errorf("a return within a cell is no line end: %s", records[0].Value)
	}
	records, _ = scan(t, write(t, "names.csv", "ORCID,item\n0000-1,a\n"), CSV, "item")
	if len(records) != 1 {
		t.Error("a column called as an ORC file begins")
	}
	marked := write(t, "lines", byteOrderMark+"a\nb\n")
	if records, _ = scan(t, marked, Lines, ""); string(records[0].Value) != byteOrderMark+"a" {
		t.Errorf("lines as they are: %q", records[0].Value)
	}
}

// TestOtherFiles: a file that is no text is refused by every reader, with what it is and what to do.
func TestOtherFiles(t *testing.T) {
	parts := t.TempDir()
	for _, name := range []string{"part-00000.csv", "part-00001.csv", "_SUCCESS"} {
		if err := os.WriteFile(filepath.Join(parts, name), []byte("user,item\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parquet, err := os.ReadFile(pandasFile)
	if err != nil {
		t.Fatal(err)
	}
	once, err := os.ReadFile(write(t, "x.gz", "user,item\n"))
	if err != nil {
		t.Fatal(err)
	}
	tarFile := append(make([]byte, 257), "ustar\x0000"...)
	tarFile[0] = 'x'
	for want, path := range map[string]string{
		"it is a ZIP archive or a workbook, which is not read here: ": write(t, "x.zip", "PK\x03\x04\x14\x00"),
		"not read here: decompress it with xz -d, or ":                write(t, "x.xz", "\xfd7zXZ\x00\x00\x04"),
		"it is a ZIP archive without files":                           write(t, "y.zip", "PK\x05\x06\x00\x00"),
		"it is compressed by xz, which":                               write(t, "y.xz", "\xfd7zXZ\x00\x00\x04 1:2"),
		"it is compressed by lzma":                                    write(t, "x.lzma", "]\x00\x00\x80\x00"),
		"it is compressed by zlib":                                    write(t, "x.zz", "x\x9c\x01\x04\x00\xfb"),
		"decompressed, it is compressed once more":                    write(t, "x.gz.gz", string(once)),
		"it is compressed by lz4":                                     write(t, "x.lz4", "\x04\x22\x4d\x18\x64\x40"),
		"it is Avro, which is not read here: write it as Parquet":     write(t, "x.avro", "Obj\x01\x04\x14avro"),
		"it is Arrow, which is not read here: write it as Parquet":    write(t, "x.arrows", "\xff\xff\xff\xff\x10\x02\x00"),
		"it is a database of SQLite":                                  write(t, "x.db", "SQLite format 3\x00"),
		"it is a pickle of Python":                                    write(t, "x.pkl", "\x80\x04\x95\x10\x00"),
		"it is text in UTF-32, which is not read here: write it":      write(t, "x.txt", utf32Mark+"u\x00\x00\x00"),
		"it is a tar archive":                                         write(t, "x.tar", string(tarFile)),
		"decompressed: it is a tar archive":                           write(t, "x.tar.gz", string(tarFile)),
		"is a directory of 2 part files: name one of them, such as ":  parts,
		"is a directory: name a file in it":                           t.TempDir(),
		"it is Parquet, which is not read here: say --format parquet": write(t, "x.bin", string(parquet)),
	} {
		_, scanErr := ScanRecords(path, CSV, Fields{Key: "user"}, nil, func(Record) error { return nil })
		_, readErr := Read(path, Options{Format: JSONL, Schema: event.Schema{}, Decode: decodeRating()})
		_, profileErr := ReadProfile(path, CSV, 10)
		for verb, err := range map[string]error{"scan": scanErr, "read": readErr, "profile": profileErr} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %s: %v, want %q", verb, path, err, want)
			}
		}
	}
	if format, err := Detect(write(t, "z.xz", "\xfd7zXZ\x00\x00\x04 1:2")); format != CSV || err != nil {
		t.Errorf("xz whose bytes look like LIBSVM is taken for %s, %v", format, err)
	}
	if _, err := ReadProfile(parts, Parquet, 10); err == nil || !strings.Contains(err.Error(),
		"is a directory of 2 part files") {
		t.Error(err)
	}
}

// TestDamagedWide: UTF-16 that is cut off or not valid is text with replacement characters or an error, and ends.
func TestDamagedWide(t *testing.T) {
	text := wide("user,item\nu1,🙂\n", false, true)
	for cut := range text {
		path := write(t, "x", text[:cut])
		if _, err := ScanRecords(path, CSV, Fields{Key: "user"}, nil, func(r Record) error {
			if !bytes.HasPrefix(r.Value, []byte("{")) {
				t.Errorf("%q", r.Value)
			}
			return nil
		}); err != nil && !strings.Contains(err.Error(), "dataset: ") {
			t.Errorf("%d bytes: %v", cut, err)
		}
	}
}
