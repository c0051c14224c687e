package daemontest

import (
	"bytes"
	"strings"
	"sync"
)

// A Log is one that is read while it is written. Its zero value is empty.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Has reports whether a text has been written.
func (l *Log) Has(text string) bool { return strings.Contains(l.String(), text) }

// String returns what has been written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
