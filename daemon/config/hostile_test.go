package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// hang is far more than a file of the size that is read takes, and far less than one whose time grows with the square
// of its size.
const hang = 10 * time.Second

// TestHostileFiles checks that no file keeps the parser busy. The limit is loose because the machine may be busy.
func TestHostileFiles(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	for name, text := range map[string]string{
		"empty":           "",
		"comments only":   "# nothing\n",
		"NUL":             "\x00",
		"not UTF-8":       "kafka: \xff\xfe",
		"anchor bomb":     bomb,
		"deep flow":       strings.Repeat("[", 100_000),
		"deep flow map":   strings.Repeat("{a: ", 100_000),
		"deep dashes":     strings.Repeat("- ", 100_000) + "a",
		"deep block":      deepBlock(700),
		"many keys":       strings.Repeat("a: [1,2,3]\n", 90_000),
		"long list":       "models: [" + strings.Repeat("x,", 500_000) + "x]",
		"long text":       "storage: {path: " + strings.Repeat("x", 1_000_000) + "}",
		"long comment":    strings.Repeat("# "+strings.Repeat("x", 70)+"\n", 13_000),
		"question marks":  strings.Repeat("? ", 100_000),
		"above the limit": strings.Repeat("# x\n", MaxFileBytes/4+1),
		"merge":           "<<: {kafka: {group_id: g}}\n",
		"self reference":  "models: &m [*m]\n",
	} {
		t.Run(name, func(t *testing.T) {
			took := time.Hour
			for tries := 0; tries < 3 && took > hang; tries++ { // the machine may have been busy
				began := time.Now()
				if _, problems := parse(t, text); len(problems) == 0 {
					t.Error("no problem found")
				}
				took = min(took, time.Since(began))
			}
			if took > hang {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestHundredModels checks that the bounds leave room for every honest file.
func TestHundredModels(t *testing.T) {
	head, model, _ := strings.Cut(DefaultsYAML(), "  - name: ratings")
	text := head
	for i := range 100 {
		text += fmt.Sprintf("  - name: ratings%d%s", i, model)
	}
	began := time.Now()
	if _, problems := parse(t, text); problems != nil {
		t.Fatalf("%+v", problems[:1])
	}
	t.Logf("%d bytes in %v", len(text), time.Since(began))
}

// deepBlock nests mappings by indentation.
func deepBlock(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	f.Add(smallest)
	f.Add(DefaultsYAML())
	for _, seed := range []string{"a: &a [*a]", "- - a", "? a : b", "kafka: {sasl: {password: ${X}}}", "models: [{}]",
		"models:\n- name: |\n    x\n",
		"---\n---\n", "a: !!binary x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f.yaml", []byte(text), noEnv)
		if (c == nil) == (err == nil) {
			t.Fatalf("configuration %v with error %v", c, err)
		}
		if err != nil && err.Error() == "" {
			t.Error("an error without text")
		}
		if c != nil {
			c.Hash()
		}
	})
}

func TestLoadMissingFile(t *testing.T) {
	_, err := Load(t.TempDir() + "/none.yaml")
	if err == nil || !strings.Contains(err.Error(), "none.yaml") || !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("error %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		next, ok := err.(interface{ Unwrap() error })
		if !ok || os.IsNotExist(err) {
			return err
		}
		err = next.Unwrap()
	}
}
