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

// TestManualPage: the page is roff that man and mandoc have nothing to say about. It has every verb and flag of the
// help, the examples and the exit codes, and is the same each time.
func TestManualPage(t *testing.T) {
	page := printed(t, "refitd.1", "man")
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(b), "\\&.", ".")
	if !strings.HasPrefix(text, `.TH REFITD 1 "" "refitd" "User Commands"`+"\n.SH NAME\nrefitd - Keeps") {
		t.Errorf("the page begins with %.200s", text)
	}
	wanted := []string{".SH EXIT STATUS\n", "6: no model\n", "\nrefitd versions diff --store snapshots", "λ"}
	for _, verb := range new(cli).parser().Model.Leaves(true) {
		wanted = append(wanted, "\\fB"+strings.TrimPrefix(verb.FullPath(), "refitd ")+" ")
		for _, flag := range verb.Flags {
			if line := "\\fB" + flag.Summary() + "\\fP\n"; !flag.Hidden {
				wanted = append(wanted, line)
			}
		}
	}
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, other := range otherNames {
		if !other.listed && strings.Contains(text, "\n\\fB"+other.name+" ") {
			t.Errorf("the page has the former name %s", other.name)
		}
	}
	if strings.Contains(text, "%!") {
		t.Error("the text of a flag was taken for a format")
	}
	if strings.Count(text, "\\fB--event=FILE\\fP") != 1 { // that of check event
		t.Error("the page has the hidden flags of check config")
	}
	t.Run("man", func(t *testing.T) {
		if out := tool(t, "man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page); strings.Contains(out,
			"warning") {
			t.Errorf("man: %s", out)
		}
	})
	t.Run("mandoc", func(t *testing.T) {
		if out := tool(t, "mandoc", "-T", "lint", "-W", "error", page); out != "" {
			t.Errorf("mandoc: %s", out)
		}
	})
}

// TestCompletion: what the program offers to a shell that asks: verbs, verbs of a group, flags of the verb, the values
// of a flag, also after =. Former names are not offered.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		line string
		want string // among what is offered
		not  string
	}{
		{"refitd che", "check", "--data"},
		{"refitd check ", "event", "fit"},
		{"refitd --json check con", "config", "fit"},
		{"refitd fit --sp", "--split-by", "--config.file"},
		{"refitd fit --format mo", "movielens", "--format"},
		{"refitd versions export onnx --tensors f", "f64", "--format"},
		{"refitd keys new --lo", "--log.level", "--store"},
		{"refitd fit --format=lib", "libsvm", "movielens"},
		{"refitd ", "versions", "promote"},
	} {
		t.Setenv("COMP_LINE", c.line)
		var out bytes.Buffer
		if code := run(context.Background(), nil, nil, &out, &out); code != 0 {
			t.Errorf("%s: exit code %d, %s", c.line, code, &out)
		}
		if got := strings.Fields(out.String()); !slices.Contains(got, c.want) || slices.Contains(got, c.not) {
			t.Errorf("%s: %v, want %s and not %s", c.line, got, c.want, c.not)
		}
	}
}

// TestCompletionScripts: each shell takes its script and asks the program then.
func TestCompletionScripts(t *testing.T) {
	t.Run("bash", func(t *testing.T) {
		script := printed(t, "refitd.bash", "completion", "bash")
		if out := tool(t, "bash", "-c", `source "$1"; complete -p refitd`, "-", script); !strings.Contains(out,
			"-C 'refitd' refitd") &&
			!strings.Contains(out, "-C refitd refitd") {
			t.Errorf("bash: %s", out)
		}
	})
	t.Run("zsh", func(t *testing.T) {
		script := printed(t, "_refitd", "completion", "zsh")
		code := `autoload() { }; bashcompinit() { }; complete() { print -r -- "$@" }; source "$1"`
		if out := tool(t, "zsh", "-f", "-c", code, "-", script); !strings.Contains(out, "-C refitd refitd") {
			t.Errorf("zsh: %s", out)
		}
	})
	t.Run("fish", func(t *testing.T) {
		script := printed(t, "refitd.fish", "completion", "fish")
		code := `function refitd; echo "asked:$COMP_LINE."; end; source $argv[1]; complete -C "refitd fit "`
		if out := tool(t, "fish", "-c", code, script); strings.TrimSpace(out) != "asked:refitd fit ." {
			t.Errorf("fish: %q", out)
		}
	})
	if code := run(context.Background(), []string{"completion", "csh"}, nil, new(bytes.Buffer), new(
		bytes.Buffer)); code != 2 {
		t.Errorf("completion csh: exit code %d", code)
	}
}
