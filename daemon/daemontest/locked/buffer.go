// Package locked has a buffer for logs that a test reads while they are written.
package locked

import (
	"bytes"
	"strings"
	"sync"
)

// A Buffer is read while it is written. Its zero value is empty.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Has reports whether a text has been written.
func (l *Buffer) Has(text string) bool { return strings.Contains(l.String(), text) }

// String returns what has been written.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
