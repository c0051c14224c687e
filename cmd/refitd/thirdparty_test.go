package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write THIRD_PARTY.md and licences.json")

const thirdPartyHead = `# Third-party modules

The Go modules that are linked into the binaries of this repository, with the licences that their licence files contain. Generated:
` + "`go test ./cmd/refitd -run ThirdParty -update`" + `. The binaries hold the Go standard library and runtime, too (BSD-3-Clause, Copyright 2009 The Go
Authors). Modules that only tests need are in go.mod and not here.

| module | version | in | licence | copyright |
|---|---|---|---|---|
`

// licencePhrases: licences are found by a phrase that only they have.
var licencePhrases = []struct {
	name string
	text *regexp.Regexp
}{
	{"Apache-2.0", regexp.MustCompile(`Apache License,?\s+Version 2\.0`)},
	{"BSD-3-Clause", regexp.MustCompile(`(?s)Redistribution and use in source and binary forms.*Neither the name`)},
	{
		"BSD-2-Clause",
		regexp.MustCompile(`Redistribution and use in source and binary forms`),
	}, // unless it is the one above
	{
		"MIT",
		regexp.MustCompile(
			`Permission is hereby granted, free of charge,\s+to\s+any\s+person\s+obtaining\s+a\s+copy\s+of\s+this`),
	},
	{"MPL-2.0", regexp.MustCompile(`Mozilla Public License`)},
	{"CC-BY-4.0", regexp.MustCompile(`Attribution 4\.0 International|licenses/by/4\.0`)},
	{"FTL", regexp.MustCompile(`(?s)your choice.*FreeType License`)}, // or GPL-2.0-or-later, at our choice
	{"OFL-1.1", regexp.MustCompile(`SIL OPEN FONT LICENSE`)},
	{"ISC", regexp.MustCompile(`Permission to use, copy, modify, and/or distribute`)},
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)(\.\w+|-sil)?$`)
	copyright   = regexp.MustCompile(`(?m)^\W*(Copyright (?:\(c\)|\(C\)|©|\d).*?)(?:\. All rights reserved)?\.?\s*$`)
)

// TestThirdParty: THIRD_PARTY.md lists the modules that are linked, at their versions and with their licences;
// licences.json has these for the bill of materials of the command.
func TestThirdParty(t *testing.T) {
	t.Parallel()
	rows, named := make(map[string]string), make(map[string][]string)
	in := make(map[string][]string)
	for _, command := range []string{"refitd", "paper"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}",
			"github.com/refitd/refitd/cmd/"+command)
		list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly",
			"GOPROXY=off")
		out, err := list.Output()
		if err != nil {
			t.Skipf("not checked: go list: %v", err)
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Fields(line)
			if len(f) == 2 {
				t.Skipf("not checked: the module cache has no %s", f[0])
			}
			if len(f) < 3 || slices.Contains(in[f[0]], command) {
				continue
			}
			in[f[0]] = append(in[f[0]], command)
			names, holders := licence(t, f[2])
			rows[f[0]] = fmt.Sprintf("| %s | %s | %s | %s | %s |", f[0], f[1], strings.Join(in[f[0]], ", "),
				strings.Join(names, ", "), strings.Join(holders, "; "))
			if command == "refitd" {
				named[f[0]] = names
			}
		}
	}
	var modules []string
	for module := range rows {
		modules = append(modules, module)
	}
	slices.Sort(modules)
	want := bytes.NewBufferString(thirdPartyHead)
	for _, module := range modules {
		fmt.Fprintln(want, rows[module])
	}
	list, err := json.MarshalIndent(named, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{filepath.Join("..", "..", "THIRD_PARTY.md"): want.Bytes(),
		"licences.json": append(list, '\n')} {
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is linked (%v): go test ./cmd/refitd -run ThirdParty -update", path, err)
		}
	}
}

// TestVersionBOM: the command's own bill of materials has every module that go.mod links into it, at its version, with
// a sum and a licence. This one is of a test binary, which has those of tests, too; .ci/debian compares that of the
// command with what the Go command reads from it.
func TestVersionBOM(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	if code := run(t.Context(), []string{"version", "--bom"}, nil, &out, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var bill struct {
		Components []struct {
			Name, Version string
			Hashes        []any
			Licenses      []any
		}
	}
	if err := json.Unmarshal(out.Bytes(), &bill); err != nil {
		t.Fatal(err)
	}
	names, err := licencesByModule()
	if err != nil {
		t.Fatal(err)
	}
	versions := make(map[string]string)
	for _, c := range bill.Components {
		versions[c.Name] = c.Version
		if _, linked := names[c.Name]; linked && (len(c.Hashes) != 1 || len(c.Licenses) == 0) {
			t.Errorf("%+v", c)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "THIRD_PARTY.md"))
	if err != nil {
		t.Fatal(err)
	}
	linked := regexp.MustCompile(`(?m)^\| (\S+) \| (\S+) \| refitd`).FindAllStringSubmatch(string(text), -1)
	if len(linked) < 30 {
		t.Fatalf("%d modules in THIRD_PARTY.md", len(linked))
	}
	for _, m := range linked {
		if versions[m[1]] != m[2] {
			t.Errorf("%s: version %q, %s is linked", m[1], versions[m[1]], m[2])
		}
	}
	if versions["std"] == "" {
		t.Error("the standard library is missing")
	}
}

// licence returns the names of the licences in the files of a module, and whose copyright they say it is.
func licence(t *testing.T, dir string) (names, holders []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Skipf("not checked: %v", err)
	}
	add := func(list *[]string, s string) {
		if s = strings.ReplaceAll(strings.TrimSpace(s), "|", "/"); !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range licencePhrases {
			if l.text.Match(text) && !(l.name == "BSD-2-Clause" && slices.Contains(names, "BSD-3-Clause")) {
				add(&names, l.name)
			}
		}
		for _, m := range copyright.FindAllSubmatch(text, -1) {
			if holder := string(m[1]); !strings.Contains(holder, "[yyyy]") && !strings.Contains(holder, "{yyyy}") {
				add(&holders, holder)
			}
		}
	}
	if len(names) == 0 {
		t.Errorf("%s: no licence is known in its files", dir)
	}
	return names, holders
}
