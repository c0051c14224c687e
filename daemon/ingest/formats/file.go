package formats

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/sketch"
	"github.com/refitd/refitd/snapshot/durable"
)

// SchemasFile is the file, in a state directory, with the schemas of the state: what a new state needs to read the log
// again where the old one cannot be opened, and the registry not be asked.
const SchemasFile = "schemas.json"

// maxSchemasFile bounds what is read of it.
const maxSchemasFile = 64 << 20

// keptSchemas is the contents of a SchemasFile.
type keptSchemas struct {
	Format  int          `json:"format"` // 1
	Schemas []keptSchema `json:"schemas"`
}

// keptSchema is a schema of the state.
type keptSchema struct {
	ID     string          `json:"id"` // in words
	Key    string          `json:"key"`
	SHA256 string          `json:"sha256"` // of the key and the schema as it is stored
	Schema json.RawMessage `json:"schema"`
}

// sumOf returns the digest of a schema as the state has it.
func sumOf(one *sketch.Schema) string {
	sum := sha256.Sum256(append(bytes.Clone(one.Key), one.Value...))
	return hex.EncodeToString(sum[:])
}

// KeepSchemas writes the schemas of a state into its directory, unless it has none or the file says so already.
func KeepSchemas(store *sketch.Store, dir string) error {
	out := keptSchemas{Format: 1}
	err := store.Schemas(func(one sketch.Schema) error {
		out.Schemas = append(out.Schemas, keptSchema{ID: idOf(one.Key).String(), Key: hex.EncodeToString(one.Key),
			SHA256: sumOf(&one), Schema: bytes.Clone(one.Value)})
		return nil
	})
	if err != nil || len(out.Schemas) == 0 {
		return err
	}
	text, err := json.Marshal(&out)
	if err != nil {
		return fmt.Errorf("ingest: %s: %w", SchemasFile, err)
	}
	path := filepath.Join(dir, SchemasFile)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return durable.WriteFile(path, 0o600, durable.Bytes(text))
}

// TakeSchemas stores the schemas that were kept in a directory in a state, but for those that it has, and returns how
// many were stored. A file that is not there has none. One that is damaged is an error, and none of it is stored.
func TakeSchemas(store *sketch.Store, dir string) (n int, err error) {
	path := filepath.Join(dir, SchemasFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if info.Size() > maxSchemasFile {
		return 0, fmt.Errorf("ingest: %s has %d bytes, at most %d are read", path, info.Size(), maxSchemasFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var in keptSchemas
	if err := json.Unmarshal(text, &in); err != nil {
		return 0, fmt.Errorf("ingest: %s: %w", path, err)
	}
	if in.Format != 1 {
		return 0, fmt.Errorf("ingest: %s has format %d, this build reads 1", path, in.Format)
	}
	has := make(map[string]bool)
	if err := store.Schemas(func(one sketch.Schema) error {
		has[string(one.Key)] = true
		return nil
	}); err != nil {
		return 0, err
	}
	var list []sketch.Schema
	for i := range in.Schemas {
		key, err := hex.DecodeString(in.Schemas[i].Key)
		one := sketch.Schema{Key: key, Value: in.Schemas[i].Schema}
		if err != nil || sumOf(&one) != in.Schemas[i].SHA256 {
			return 0, fmt.Errorf("ingest: %s: %s is not what was written", path, in.Schemas[i].ID)
		}
		if !has[string(key)] {
			has[string(key)] = true
			list = append(list, one)
		}
	}
	if len(list) == 0 {
		return 0, nil
	}
	return len(list), store.AddSchemas(list)
}
