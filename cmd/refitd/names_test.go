package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// maxFirstScreen is how many lines of commands the first screen of the help has at most: one look takes them in.
const maxFirstScreen = 16

// isFormer reports whether a name at the top is one of release 0.1.
func isFormer(name string) bool {
	return slices.ContainsFunc(otherNames, func(o otherName) bool { return o.name == name && !o.listed })
}

// helpOf is what a verb prints with --help.
func helpOf(t *testing.T, path string) string {
	t.Helper()
	var out bytes.Buffer
	if code := run(t.Context(), append(strings.Fields(path), "--help"), nil, &out, &out); code != 0 {
		t.Fatalf("refitd %s --help: exit code %d, %s", path, code, &out)
	}
	return out.String()
}

// TestFirstScreen: the help of the program lists few verbs, a line for each, and no former name.
func TestFirstScreen(t *testing.T) {
	_, rest, _ := strings.Cut(helpOf(t, ""), "\nCommands:\n")
	list, _, found := strings.Cut(rest, "\n\n")
	lines := strings.Split(list, "\n")
	if !found || len(lines) > maxFirstScreen {
		t.Errorf("%d lines of commands, want at most %d:\n%s", len(lines), maxFirstScreen, list)
	}
	var names []string
	for _, line := range lines {
		if !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "   ") {
			t.Errorf("the help of a verb is longer than its line: %q", line)
			continue
		}
		name := strings.Fields(line)[0]
		if names = append(names, name); isFormer(name) {
			t.Errorf("the former name %s is listed", name)
		}
	}
	for _, want := range []string{"run", "quickstart", "init", "backtest", "replay", "fit", "eval", "score", "inspect",
		"verify", "keys",
		"version", "versions", "state", "check"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %q", want, names)
		}
	}
}

// TestOtherNames: each other name is the verb itself. The flags, the arguments, what runs and the help are the same.
func TestOtherNames(t *testing.T) {
	top := new(cli).parser().Model.Node
	var compare func(name, path string, a, b *kong.Node)
	compare = func(name, path string, a, b *kong.Node) {
		if a.Target != b.Target || !slices.Equal(a.Flags, b.Flags) || !slices.Equal(a.Positional, b.Positional) {
			t.Errorf("%s is another verb than %s", name, path)
		}
		if len(a.Children) != len(b.Children) {
			t.Fatalf("%s has %d verbs, %s %d", name, len(a.Children), path, len(b.Children))
		}
		for i, child := range a.Children {
			compare(name+" "+child.Name, path+" "+child.Name, child, b.Children[i])
		}
		if len(a.Children) > 0 {
			return // the help of a group lists its verbs, in columns that are as wide as their names
		}
		usage := func(help, name string) string {
			return strings.Replace(help, "Usage: refitd "+name, "Usage: refitd", 1)
		}
		if got, want := usage(helpOf(t, name), name), usage(helpOf(t, path), path); got != want {
			t.Errorf("the help of %s is\n%s, that of %s\n%s", name, got, path, want)
		}
	}
	for _, other := range otherNames {
		group, verb, _ := strings.Cut(other.path, " ")
		compare(other.name, other.path, childOf(top, other.name), childOf(childOf(top, group), verb))
	}
}

// TestVerbsOfGroups: the groups have the verbs that the command-line contract names, and each verb of release 0.1 has a
// name.
func TestVerbsOfGroups(t *testing.T) {
	top := new(cli).parser().Model.Node
	for group, want := range map[string]string{
		"versions": "list alias promote rollback log diff reproduce export prune",
		"state":    "inspect verify backup restore rebuild forget accept-gap",
		"check":    "config event",
	} {
		var got []string
		for _, child := range childOf(top, group).Children {
			got = append(got, child.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("refitd %s has %q, want %s", group, got, want)
		}
	}
	for name := range strings.FieldsSeq("quickstart init check replay run verify accept-gap backup restore rebuild " +
		"forget check-state fit " +
		"backtest eval score inspect diff reproduce aliases promote rollback log prune keys export completion man version") {
		if !slices.ContainsFunc(top.Children, func(n *kong.Node) bool { return n.Name == name }) {
			t.Errorf("release 0.1 had the verb %s", name)
		}
	}
}
