package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestExamples: every verb has an example in its help, and the command line takes it.
func TestExamples(t *testing.T) {
	parser := new(cli).parser()
	var paths []string
	for _, leaf := range parser.Model.Leaves(false) {
		path := strings.TrimPrefix(leaf.FullPath(), "refitd ")
		top, _, _ := strings.Cut(path, " ")
		if path == "check-state" || slices.ContainsFunc(otherNames, func(o otherName) bool { return o.name == top }) {
			continue
		}
		paths = append(paths, path)
		_, line, found := strings.Cut(examples[path], "refitd "+path)
		if !found {
			t.Errorf("refitd %s has no example, or one of another verb: %q", path, examples[path])
			continue
		}
		if _, err := parser.Parse(words(t, "refitd "+path+line)[1:]); err != nil {
			t.Errorf("%s: %v", examples[path], err)
		}
		var help bytes.Buffer
		code := run(context.Background(), append(strings.Fields(path), "--help"), nil, &help, &help)
		if code != 0 || !strings.Contains(help.String(), examples[path]) {
			t.Errorf("refitd %s --help, exit code %d, lacks the example:\n%s", path, code, &help)
		}
	}
	for path := range examples {
		if !slices.Contains(paths, path) {
			t.Errorf("an example for %s, which is no verb", path)
		}
	}
}

// words splits a command as a shell does, without what it redirects.
func words(t *testing.T, line string) []string {
	t.Helper()
	line, _, _ = strings.Cut(line, " > ")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+line).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// printed is what a verb prints, in a file.
func printed(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(context.Background(), args, nil, &out, &errs); code != 0 {
		t.Fatalf("%v: exit code %d, %s", args, code, &errs)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// tool runs another program, and skips the test where that is not installed.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	command := exec.CommandContext(t.Context(), path, args...)
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C.UTF-8", "MANROFFSEQ=", "TERM=dumb")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestManualPage: the page is roff that man and mandoc have nothing to say about, with every verb, flag and exit code.
func TestManualPage(t *testing.T) {
	page := printed(t, "refitd.1", "man")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".SH NAME\nrefitd \\-", ".SS refitd versions export onnx\n",
		"\\fB\\-\\-config.file\\fR=\\fIFILE\\fR", ".SH EXIT STATUS\n", "\\[u03BB]",
		"\nrefitd versions diff \\-\\-store snapshots"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, r := range string(text) {
		if r >= utf8.RuneSelf {
			t.Fatalf("%q is no character that every roff reads", r)
		}
	}
	t.Run("man", func(t *testing.T) {
		if out := tool(t, "man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page); strings.Contains(out, "warning") {
			t.Errorf("man: %s", out)
		}
	})
	t.Run("mandoc", func(t *testing.T) {
		if out := tool(t, "mandoc", "-T", "lint", "-W", "error", page); out != "" {
			t.Errorf("mandoc: %s", out)
		}
	})
}

// TestCompletion asks the shells themselves: verbs, verbs of a group, flags of the verb, the values of a flag, also after =.
func TestCompletion(t *testing.T) {
	cases := []struct {
		line []string
		want string // among what is offered
		not  string
	}{
		{[]string{"che"}, "check", "--data"},
		{[]string{"check", ""}, "event", "fit"},
		{[]string{"--json", "check", "con"}, "config", "fit"},
		{[]string{"fit", "--sp"}, "--split-by", "--config.file"},
		{[]string{"fit", "--format", "mo"}, "movielens", "--format"},
		{[]string{"versions", "export", "onnx", "--tensors", "f"}, "f64", "--format"},
		{[]string{"keys", "new", "--lo"}, "--log.level", "--store"},
	}
	t.Run("bash", func(t *testing.T) {
		script := printed(t, "refitd.bash", "completion", "bash")
		offers := func(line []string) []string {
			list := append([]string{"refitd"}, line...)
			code := `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _refitd; printf '%s\n' "${COMPREPLY[@]}"`
			return strings.Fields(tool(t, "bash", append([]string{"-c", code, "-", script}, list...)...))
		}
		for _, c := range cases {
			if got := offers(c.line); !slices.Contains(got, c.want) || slices.Contains(got, c.not) {
				t.Errorf("%v: %v, want %s and not %s", c.line, got, c.want, c.not)
			}
		}
		if got := offers([]string{"fit", "--format", "=", "lib"}); !slices.Equal(got, []string{"libsvm"}) {
			t.Errorf("--format=lib: %v", got)
		}
	})
	t.Run("zsh", func(t *testing.T) {
		script := printed(t, "_refitd", "completion", "zsh")
		for _, c := range cases { // zsh itself compares all flags with what is typed
			code := `script=$1; shift; compdef() { }; _arguments() { print -rl -- "$@" }; _describe() { print -rl -- "${(@P)4}" }
source "$script"; words=("$@"); CURRENT=$#; _refitd`
			out := tool(t, "zsh", append([]string{"-f", "-c", code, "-", script, "refitd"}, c.line...)...)
			if !strings.Contains(out, c.want) || !strings.HasPrefix(c.not, "--") && strings.Contains(out, c.not) {
				t.Errorf("%v: %s, want %s and not %s", c.line, out, c.want, c.not)
			}
		}
	})
	t.Run("fish", func(t *testing.T) {
		script := printed(t, "refitd.fish", "completion", "fish")
		for _, c := range cases {
			out := tool(t, "fish", "-c", `source $argv[1]; complete -C "$argv[2]"`, script, "refitd "+strings.Join(c.line, " "))
			if !strings.Contains(out, c.want) || strings.Contains(out, c.not) {
				t.Errorf("%v: %s, want %s and not %s", c.line, out, c.want, c.not)
			}
		}
	})
	if code := run(context.Background(), []string{"completion", "csh"}, nil, new(bytes.Buffer), new(bytes.Buffer)); code != 2 {
		t.Errorf("completion csh: exit code %d", code)
	}
}
