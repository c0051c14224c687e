package offline

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/dataset"
	"github.com/refitd/refitd/daemon/offline/offlinetest"
	"github.com/refitd/refitd/daemon/report"
)

// TestFormatIsDetected: without a flag, the format of a file or of standard input is detected by its first line.
func TestFormatIsDetected(t *testing.T) {
	for text, want := range map[string]dataset.Format{
		"user,item,rating\na,b,1\n": dataset.CSV, "user\tstars\na\t1\n": dataset.CSV, `{"user":"a"}`: dataset.JSONL,
		"1\t2\t3\t881250949\n": dataset.MovieLens, "1::2::3\n": dataset.MovieLens, "1 1:2 3:4\n": dataset.LIBSVM,
		"PAR1....": dataset.Parquet,
	} {
		if got, err := (TableOptions{}).FormatOf("", offlinetest.WriteFile(t, "x", text)); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
		standardInput(t, text)
		if got, err := (TableOptions{}).FormatOf("", dataset.Stdin); err != nil || got != want {
			t.Errorf("%q on standard input: %s, %v, want %s", text, got, err, want)
		}
		if got, err := (TableOptions{}).FormatOf(dataset.LIBSVM, offlinetest.WriteFile(t, "x", text)); err != nil ||
			got != dataset.LIBSVM {
			t.Errorf("%q: %s, %v, with a format that is said", text, got, err)
		}
	}
	if got, err := (TableOptions{Columns: []string{"a", "b", "c"}}).FormatOf("", offlinetest.WriteFile(t, "x",
		"1\t2\t3\n")); err != nil ||
		got != dataset.CSV {
		t.Errorf("%s, %v, with names of columns", got, err)
	}
	_, err := TableOptions{}.FormatOf("", "none.csv")
	offlinetest.WantExit(t, err, report.ExitUsage, "none.csv")
}

// standardInput makes standard input a file of this text until the test ends.
func standardInput(t *testing.T, text string) {
	t.Helper()
	f, err := os.Open(offlinetest.WriteFile(t, "stdin", text))
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdin
	t.Cleanup(func() { os.Stdin = was; f.Close() })
	os.Stdin = f
}

// TestStandardInput: what was looked at for the format is read, too, whatever the format and the size.
func TestStandardInput(t *testing.T) {
	var csv, jsonl strings.Builder
	csv.WriteString("user,item,rating,ts\n")
	const n = 20_000 // more than the buffer
	for i, l := range offlinetest.Ratings(n, 2) {
		c := strings.Split(l, "\t")
		csv.WriteString(strings.Join(c, ",") + "\n")
		fmt.Fprintf(&jsonl, `{"user":%q,"item":%q,"rating":%s,"ts":%s}`+"\n", c[0], c[1], c[2], c[3])
		if i == 1 {
			jsonl.WriteString("\n")
		}
	}
	packed := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(text))
		w.Close()
		return b.String()
	}
	for name, text := range map[string]string{"csv": csv.String(),
		"csv.gz": packed(csv.String()), "jsonl": "\n" + jsonl.String(), "jsonl.gz": packed(jsonl.String())} {
		standardInput(t, text)
		format, err := TableOptions{}.FormatOf("", dataset.Stdin)
		if err != nil || string(format) != strings.TrimSuffix(name, ".gz") {
			t.Fatalf("%s: %s, %v", name, format, err)
		}
		if set, err := ReadEvents(offlinetest.Configured(t), dataset.Stdin, format, TableOptions{}, nil); err != nil ||
			len(set.Examples) != n ||
			set.Skipped.Lines > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
