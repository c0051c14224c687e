package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/refitd/refitd/daemon/config/strictyaml"
	"github.com/refitd/refitd/daemon/daemontest/tier"
)

// The secrets of the shapes: a text and a number, in forms that a type error could quote.
const shapeText, shapeNumber = "Xq7canaryZ", "7311884291"

// shapes are the forms in which a value can stand behind a key. Lines after the first are indented by %s.
var shapes = map[string]string{
	"plain":               " " + shapeText,
	"quoted":              ` "` + shapeText + `"`,
	"open quote":          ` "` + shapeText,
	"number":              " " + shapeNumber,
	"negative number":     " -" + shapeNumber,
	"fraction":            " 0." + shapeNumber,
	"hexadecimal":         " 0x" + shapeNumber,
	"bool":                " true # " + shapeText,
	"null":                " # " + shapeText,
	"list":                " [" + shapeText + ", 1]",
	"open list":           " [" + shapeText,
	"list of lines":       "\n%s- " + shapeText + "\n%s- " + shapeText,
	"list at the key":     "\n- " + shapeText,
	"map":                 " {value: " + shapeText + "}",
	"set":                 " {" + shapeText + "}",
	"open map":            " {value: " + shapeText,
	"map of lines":        "\n%svalue: " + shapeText + "\n%sgroup_id: " + shapeText,
	"its own key":         "\n%s" + shapeText + ": 1",
	"nested":              "\n%svalue:\n%s  - [{a: " + shapeText + "}]",
	"literal":             " |\n%s" + shapeText + "\n%s" + shapeText,
	"folded":              " >-\n%s" + shapeText,
	"literal, mistyped":   " |x\n%s" + shapeText,
	"plain of two lines":  " one\n%s" + shapeText,
	"quoted, two lines":   " \"one\n%s" + shapeText + "\"",
	"anchor":              " &a " + shapeText,
	"anchor's name":       " &" + shapeText + " 1",
	"alias":               " *" + shapeText,
	"tag":                 " !!str " + shapeText,
	"tag's name":          " !" + shapeText + " 1",
	"binary":              " !!binary " + shapeText,
	"variable":            ` "${` + shapeText + `}"`,
	"open variable":       ` "${` + shapeText + `"`,
	"tab":                 "\t" + shapeText + "\t: x",
	"reserved":            " @" + shapeText,
	"reserved quote":      " `" + shapeText,
	"escape":              ` "\q` + shapeText + `"`,
	"two keys":            " x: " + shapeText,
	"merge":               "\n%s<<: " + shapeText,
	"question mark":       "\n%s? " + shapeText,
	"no value, then text": "\n" + shapeText,
	"second document":     " 1\n---\n" + shapeText,
	"private key":         " |\n%s-----BEGIN PRIVATE KEY-----\n%s" + shapeText + "\n%s-----END PRIVATE KEY-----",
	"private key, quoted": ` "-----BEGIN PRIVATE KEY-----\n` + shapeText + `\n-----END PRIVATE KEY-----"`,
}

// secretKeys returns the paths of the keys that hold a secret, and of those that a secret itself may be put in instead
// of its file's name.
func secretKeys() (secrets, files []string) {
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case t == reflect.TypeFor[Secret]():
			secrets = append(secrets, path)
		case t.Kind() == reflect.Struct:
			for i := range t.NumField() {
				if f := t.Field(i); f.IsExported() {
					walk(f.Type, strictyaml.Join(path, strictyaml.KeyOf(f)))
				}
			}
		case strings.HasSuffix(path, "password_file") || strings.HasSuffix(path, "key_file"):
			files = append(files, path)
		}
	}
	walk(reflect.TypeFor[Config](), "")
	return secrets, files
}

// place writes a value under a path in block style, after and before other keys and with a mistake behind it.
func placed(path, spelled, shape string) string {
	segments := strings.Split(path, ".")
	segments[len(segments)-1] = spelled
	var b strings.Builder
	indent := ""
	for _, s := range segments[:len(segments)-1] {
		b.WriteString(indent + s + ":\n")
		indent += "  "
		if s == "models" {
			b.WriteString("  - name: ratings\n")
			indent += "  "
		}
	}
	last := segments[len(segments)-1]
	if strings.HasSuffix(last, "=") || strings.HasSuffix(last, " ") {
		last = strings.TrimSuffix(last, " ") // no colon
	} else {
		last += ":"
	}
	b.WriteString(indent + last + strings.ReplaceAll(shape, "%s", indent+"  ") + "\n")
	b.WriteString(indent + "mechanis: plain\n")
	return b.String()
}

// inBraces writes it in one line.
func inBraces(path, spelled, shape string) string {
	segments := strings.Split(path, ".")
	parents := segments[:len(segments)-1]
	text := "{mechanis: plain, " + spelled + ":" + strings.ReplaceAll(shape, "%s", " ") + ", username: 7}"
	for i := len(parents) - 1; i > 0; i-- {
		if parents[i-1] == "models" || parents[i] == "models" {
			text = "[" + text + "]"
		}
		text = "{" + parents[i] + ": " + text + "}"
	}
	return parents[0] + ": " + text + "\n"
}

// TestSecretsOfEveryShape: a value behind the key of a secret, right or wrong, in whatever form, is in nothing that is
// said of the file.
func TestSecretsOfEveryShape(t *testing.T) {
	tier.NotUnderRace(t)
	secrets, files := secretKeys()
	if len(secrets) == 0 || len(files) < 3 {
		t.Fatalf("keys %q and %q", secrets, files)
	}
	n := 0
	try := func(name, text string) {
		t.Helper()
		n++
		for _, rest := range []string{"", strings.Join(strings.SplitAfter(smallest, "\n")[1:], "")} {
			var out strings.Builder
			c, err := Parse("r.yaml", []byte(text+rest), noEnv)
			if c != nil {
				fmt.Fprintf(&out, "%v %+v %#v", c, c, c.Kafka)
			}
			fmt.Fprintf(&out, "%v\n%+v\n", err, err)
			slog.New(slog.NewTextHandler(&out, nil)).Error("not loaded", "error", err)
			if bad, ok := errors.AsType[*strictyaml.FileError](err); ok {
				b, jsonErr := json.Marshal(bad.Problems)
				fmt.Fprintf(&out, "%s %v", b, jsonErr)
			}
			if said := out.String(); strings.Contains(said, shapeText) ||
				strings.Contains(said, strings.ToLower(shapeText)) ||
				strings.Contains(said, shapeNumber) {
				t.Errorf("%s:\n%s\nsays\n%s", name, text, said)
			}
		}
	}
	for shape, value := range shapes {
		for _, path := range secrets {
			own := path[strings.LastIndex(path, ".")+1:]
			for _, spelled := range []string{own, "pasword", "passwd", "pw", "secret", "Password", `"password"`, "token", "key",
				own + " ", own + "="} {
				try(shape+" under "+spelled, placed(path, spelled, value))
				try(shape+" under "+spelled+" in braces", inBraces(path, spelled, value))
			}
			try(shape+" at the top", own+":"+strings.ReplaceAll(value, "%s", "  ")+"\n")
			try(shape+" outside its place", placed("kafka."+own, own, value))
			try(shape+" among the models", placed("models.input."+own, own, value))
			try(shape+" for its section", strings.ReplaceAll(placed("kafka.sasl", "sasl", value), "mechanis", "group"))
			try(shape+" for its section in braces", inBraces("kafka.sasl", "sasl", value))
			try(
				shape+" after its file",
				"kafka: {sasl: {mechanism: plain, password_file: x, "+own+":"+strings.ReplaceAll(value, "%s",
					" ")+"}}\n",
			)
		}
		if !strings.HasPrefix(shape, "private key") && !strings.ContainsAny(value[1:2], "|[{") {
			continue // a text, which is taken for a path
		}
		for _, path := range files {
			own := path[strings.LastIndex(path, ".")+1:]
			try(shape+" for the file "+path, placed(path, own, value))
			try(shape+" for the file "+path+" in braces", inBraces(path, own, value))
		}
	}
	try("no colon", "kafka: {sasl: {mechanism: plain, password:"+shapeText+"}}\n")
	try("no colon, outside its place", "kafka: {group_id: 7, password:"+shapeText+"}\n")
	try("nothing but the secret", "kafka: {sasl: {"+shapeText+"}}\n")
	try("the secret twice", "kafka: {sasl: {"+shapeText+", "+shapeText+"}}\n")
	try(
		"an address with a password",
		`kafka: {bootstrap_servers: ["ann:`+shapeText+`@127.0.0.1:9092", "sasl://ann:`+shapeText+`@h"], group_id: 7}`+"\n",
	)
	t.Logf("%d files", n)
}

// TestExcerptsStillShow: what is no secret is shown with its line, also next to a secret.
func TestExcerptsStillShow(t *testing.T) {
	const sasl = "{mechanism: plain, username: u, password: a}"
	for _, test := range []struct{ text, want string }{
		{"kafka: {group_id: 7, sasl: " + sasl + "}\n", "     1 | kafka: {group_id: 7, sasl: {mechanism: plain, username: " +
			"u, password: <redacted>\n"},
		{"kafka:\n  sasl: " + sasl + "\n  group_id: 7\n", "     3 |   group_id: <redacted>\n       |             ^"},
		{"kafka:\n  sasl:\n    mechanis: plain\n", "     3 |     mechanis: <redacted>\n       |     ^\n       = did you " +
			"mean mechanism?"},
		{"kafka: {sasl: " + sasl + "}\nstorage: {paths: state}\n", "     2 | storage: {paths: state}\n"},
		{"storage: {path: s}\nkafka: {sasl: {password_file: x}, groupid: 7}\n",
			"     2 | kafka: {sasl: {password_file: x}, groupid: 7}\n"},
		{"models:\n  - name: r\n    schema: {categorical: [passenger], labl: pas}\n",
			"     3 |     schema: {categorical: [passenger], labl: pas}\n"},
	} {
		if _, err := Parse("r.yaml", []byte(test.text), noEnv); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s:\n%v\nwant\n%s", test.text, err, test.want)
		}
	}
}

// TestContentsAreNoPaths: a key put where its file's name belongs is distinguished from a path.
func TestContentsAreNoPaths(t *testing.T) {
	text := strings.Replace(smallest, "publish: {", `publish: {signing_key_file: "-----BEGIN PRIVATE KEY-----\nx", `, 1)
	_, problems := parse(t, text)
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "the path of a file") {
		t.Errorf("problems %+v", problems)
	}
	path := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || strings.Contains(err.Error(), "-----BEGIN") {
		t.Errorf("error %v", err)
	}
}
