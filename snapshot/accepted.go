package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/refitd/refitd/snapshot/durable"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"github.com/refitd/refitd/snapshot/internal/disk"
)

// accepted is the content of a watcher's state file.
type accepted struct {
	Model string          `json:"model"`
	Alias string          `json:"alias"`
	Last  pointer.Pointer `json:"last"`
}

// maxAcceptedBytes is more than any state file has.
const maxAcceptedBytes = 4 << 10

// readAccepted returns the pointer that was accepted last, zero without a file.
func readAccepted(path, model, alias string) (pointer.Pointer, error) {
	if path == "" {
		return pointer.Pointer{}, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return pointer.Pointer{}, nil
	}
	var a accepted
	if err == nil && len(b) > maxAcceptedBytes {
		err = fmt.Errorf("%w: %d bytes", disk.ErrFormat, len(b))
	}
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err == nil && (a.Model != model || a.Alias != alias) {
		err = fmt.Errorf("%w: it belongs to model %q and alias %q", disk.ErrFormat, a.Model, a.Alias)
	}
	if err == nil {
		err = a.Last.Sound(model, alias)
	}
	if err != nil {
		return pointer.Pointer{}, fmt.Errorf(
			"state file %s: %w: give each watcher its own; without it, any version will be accepted first", path, err)
	}
	return a.Last, nil
}

// writeAccepted replaces the state file, durably.
func writeAccepted(path, model, alias string, last pointer.Pointer) error {
	if path == "" {
		return nil
	}
	b, err := json.Marshal(accepted{model, alias, last})
	if err == nil {
		err = durable.WriteFile(path, 0o644, durable.Bytes(append(b, '\n')))
	}
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	return nil
}
