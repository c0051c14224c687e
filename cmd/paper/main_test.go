package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/report"
)

func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log strings.Builder
	code = run(t.Context(), args, &out, &log)
	return code, out.String(), log.String()
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		word string
	}{
		{nil, report.ExitUsage, "paper --help"},
		{[]string{"table9"}, report.ExitUsage, "table9"},
		{[]string{"table2", "--sets", "x"}, report.ExitUsage, "vowel.t, vowel, segment"},
		{[]string{"figure4", "--data", "none"}, report.ExitUsage, "--data names the directory"},
		{[]string{"--help"}, report.ExitDone, ""},
	} {
		code, stdout, stderr := command(t, c.args...)
		if code != c.code || !strings.Contains(stderr, c.word) {
			t.Errorf("%v: code %d, %q, want %d and %q", c.args, code, stderr, c.code, c.word)
		}
		if c.code == report.ExitDone && !strings.Contains(stdout, "figure5") {
			t.Errorf("help: %s", stdout)
		}
	}
}

// TestFigure2 runs a short experiment on a small set: a table on standard output and the files.
func TestFigure2(t *testing.T) {
	data, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	if err := os.Mkdir(filepath.Join(data, "vowel"), 0o700); err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for i := range 80 {
		rows.WriteString([]string{"1 1:1 2:0.5\n", "2 1:-1 2:0.5\n", "3 1:-1 2:-0.5\n", "1 1:0.9 2:-0.4\n"}[i%4])
	}
	if err := os.WriteFile(filepath.Join(data, "vowel", "vowel.scale.t"), []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t, "figure2", "--quick", "--data", data, "--out", out)
	if code != report.ExitDone || !strings.Contains(stdout, "| vowel.t | 0    | 1.000") {
		t.Errorf("code %d\n%s\n%s", code, stdout, stderr)
	}
	for _, name := range []string{"figure2.md", "figure2.csv", "figure2.svg", "figure2.png"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestBelow: a missed bar prints so and is exit code 1. The labels are unrelated to the features, so table 2 has no
// chance.
func TestBelow(t *testing.T) {
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "vowel"), 0o700); err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for i := range 60 {
		rows.WriteString([]string{"1", "2", "3"}[(i*i/7)%3] + []string{" 1:1\n", " 1:-1\n"}[i%2])
	}
	if err := os.WriteFile(filepath.Join(data, "vowel", "vowel.scale"), []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(
		t,
		"table2",
		"--sets",
		"vowel",
		"--splits",
		"1",
		"--data",
		data,
		"--out",
		t.TempDir(),
	)
	if code != report.ExitNo || !strings.Contains(stdout, "\nbelow  vowel, ℓ1, output refits, mean accuracy: ") ||
		!strings.Contains(stderr, "below the bar: 6 of 6") {
		t.Errorf("code %d\n%s\n%s", code, stdout, stderr)
	}
}
