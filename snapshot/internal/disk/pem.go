package disk

import (
	"fmt"
	"io"
	"os"
)

// maxKeyBytes is more than any file of one key has, and MaxKeysBytes more than one of public keys needs.
const (
	maxKeyBytes  = 4 << 10
	MaxKeysBytes = 64 << 10
)

// ReadPrivate reads a file that only its owner may read.
func ReadPrivate(path string) ([]byte, error) {
	if err := checkPrivate(os.Stat(path)); err != nil { // before it is opened: opening a pipe would wait for its writer
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	defer f.Close()
	if err := checkPrivate(f.Stat()); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyBytes+1))
	if err == nil && len(b) > maxKeyBytes {
		err = fmt.Errorf("more than %d bytes", maxKeyBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return b, nil
}
