package sketch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const witnessName = "WITNESS"

// A witness is the small file beside the database that remembers that there was a state, and which.
type witness struct {
	Format  int    `json:"format"`
	Lineage string `json:"lineage"`
}

// readWitness returns an error wrapping os.ErrNotExist if there is no witness.
func readWitness(dir string) (*witness, error) {
	name := filepath.Join(dir, witnessName)
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("sketch: %w", err)
	}
	var w witness
	if err := json.Unmarshal(text, &w); err != nil || w.Format < 1 || w.Lineage == "" {
		return nil, corrupt("%s is not readable", name)
	}
	return &w, nil
}

// writeWitness replaces the witness; it is durable when writeWitness returns.
func writeWitness(dir string, w witness) error {
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("sketch: %w", err)
	}
	f, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return fmt.Errorf("sketch: %w", err)
	}
	defer os.Remove(f.Name()) // nothing is left to remove once renamed
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sketch: %w", err)
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, witnessName)); err != nil {
		return fmt.Errorf("sketch: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sketch: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sketch: %w", err)
	}
	return nil
}
