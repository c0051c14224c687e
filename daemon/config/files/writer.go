package files

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/refitd/refitd/consumer/event"
)

// MaxWriter bounds input.schema_file, and each of the files that it imports: what the state can hold.
const MaxWriter = 256 << 10

// maxImports bounds those files.
const maxImports = 100

// Writer reads a schema, with the files next to it that it imports: what a file is called says of which format it
// is. Without a schema, write says what to write instead of the file.
func Writer(file string) (w *event.Writer, write string) {
	text, err := readSchema(file)
	if err != nil {
		return nil, "the path of a readable file of at most 256 KiB (" + err.Error() + ")"
	}
	w = &event.Writer{Text: text}
	switch filepath.Ext(file) {
	case ".avsc", ".avro":
		w.Format = event.FormatAvro
	case ".proto":
		w.Format = event.FormatProtobuf
		if err := imports(w, filepath.Dir(file), text, make(map[string]bool)); err != nil {
			return nil, "imports that are next to it (" + err.Error() + ")"
		}
	case ".pb", ".desc", ".protoset", ".binpb":
		w.Format, w.IsSet, w.Text = event.FormatProtobuf, true, base64.StdEncoding.EncodeToString([]byte(text))
	default:
		return nil, "a file called .avsc, .proto, or .pb, .desc, .protoset or .binpb for a descriptor set"
	}
	return w, ""
}

func readSchema(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Size() > MaxWriter {
		return "", fmt.Errorf("%d bytes", info.Size())
	}
	text, err := os.ReadFile(file)
	return string(text), err
}

// protoToken is a part of a .proto file: a comment, a text, a word, or a sign.
var protoToken = regexp.MustCompile(`//[^\n]*|(?s:/\*.*?\*/)|"[^"\n]*"|'[^'\n]*'|\w+|\S`)

// importsOf returns the names of the files that a .proto file imports: the texts of statements that begin so, wherever
// they are in a line.
func importsOf(text string) (names []string) {
	begins, imports := true, false // a statement, and one that imports
	for _, token := range protoToken.FindAllString(text, -1) {
		switch sign := token[0]; {
		case strings.HasPrefix(token, "//") || strings.HasPrefix(token, "/*"):
			continue
		case begins && token == "import":
			imports = true
		case imports && len(token) > 1 && (sign == '"' || sign == '\''):
			names = append(names, strings.Trim(token, string(sign)))
		case sign == ';' || sign == '}' || sign == '{':
			imports = false
		}
		begins = strings.Contains(";{}", token)
	}
	return names
}

// imports adds the files that a .proto file imports, but for those of Protobuf itself.
func imports(w *event.Writer, directory, text string, seen map[string]bool) error {
	for _, name := range importsOf(text) {
		if seen[name] || strings.HasPrefix(name, "google/protobuf/") {
			continue
		}
		if seen[name] = true; len(seen) > maxImports || !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("%q, or more than %d files", name, maxImports)
		}
		other, err := readSchema(filepath.Join(directory, filepath.FromSlash(name)))
		isKnown := strings.HasPrefix(name, "google/type/") || strings.HasPrefix(name, "confluent/")
		if isKnown && errors.Is(err, fs.ErrNotExist) {
			continue // as in a registry
		} else if err != nil {
			return err
		}
		if err := imports(w, directory, other, seen); err != nil {
			return err
		}
		w.References = append(w.References, event.Reference{Name: name, Text: other})
	}
	return nil
}
