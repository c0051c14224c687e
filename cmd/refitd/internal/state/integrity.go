package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/sketch"
)

// Check opens the state in dir, which reads every file and every row of it and compares the checksums and the counts.
// No state is no error.
// Errors carry their exit codes.
func Check(ctx context.Context, dir string, log *slog.Logger) error {
	store, err := sketch.OpenExisting(ctx, dir, log)
	if err == nil {
		err = store.Close()
	}
	if err == nil || errors.Is(err, sketch.ErrNoState) {
		return nil
	}
	return ingest.StateError(err, dir)
}

// Process is the command that runs Check on the directory that is its last argument and prints the outcome in JSON
// Lines.
type Process struct {
	Path string   // of the program
	Args []string // its arguments without the directory; Args[0] is its name

	Progress sketch.Progress // gets what ProgressLine says; nil does not
}

// progressLine says how far the process is.
type progressLine struct {
	Type  string `json:"type"` // progressType
	Unit  string `json:"unit"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
}

const progressType = "progress"

// ProgressLine returns the line by which the process says how far it is.
func ProgressLine(unit string, done, total int64) []byte {
	line, _ := json.Marshal(progressLine{progressType, unit, done, total}) // text and numbers
	return append(line, '\n')
}

// A sayings takes the lines of the process: it hands on how far it is, and keeps the last of the others.
type sayings struct {
	progress sketch.Progress
	part     []byte // of a line that has not ended
	last     string
}

func (s *sayings) Write(text []byte) (int, error) {
	s.part = append(s.part, text...)
	for {
		line, rest, whole := bytes.Cut(s.part, []byte{'\n'})
		if !whole {
			return len(text), nil
		}
		s.part = rest
		var said progressLine
		if json.Unmarshal(line, &said) != nil || said.Type != progressType {
			s.last = string(line)
		} else if s.progress != nil {
			s.progress(said.Unit, said.Done, said.Total)
		}
	}
}

// Check runs the process and returns the error that it prints. If it dies, that is damage; if it cannot be started,
// that is not. A directory without a database is not looked at.
func (p *Process) Check(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "rows")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	cmd := exec.CommandContext(ctx, p.Path)
	cmd.Args = append(slices.Clone(p.Args), dir)
	// closed when this process ends, however it ends: the other one must not hold the state any longer
	alive, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	defer alive.Close()
	stdout, stderr := &sayings{progress: p.Progress}, bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if cmd.Process == nil { // it says nothing about the state
		return &report.ExitError{
			Code: report.ExitState,
			Path: dir,
			Err:  fmt.Errorf("state: the check of the state in %s cannot be started: %w", dir, err),
		}
	}
	last := stdout.last + string(stdout.part)
	var said struct {
		Type string `json:"type"`
		report.Error
	}
	if json.Unmarshal([]byte(last), &said) == nil {
		switch said.Type {
		case "summary":
			return nil
		case "error":
			return &report.ExitError{
				Code: report.CodeNamed(said.Code),
				Err:  errors.New(said.Message),
				Key:  said.Key,
				Path: said.Path,
			}
		}
	}
	return &report.ExitError{Code: report.ExitState, Path: dir,
		Err: fmt.Errorf("state: state in %s is damaged: the check of it died (%v): %s; "+
			"restore a backup, or run refitd state rebuild", dir, err, cause(stderr.String()))}
}

// maxCause bounds how much of a dying process is quoted.
const maxCause = 300

// cause returns the line that says why a Go program died.
func cause(stderr string) string {
	for line := range strings.Lines(stderr) {
		for _, start := range []string{"panic: ", "fatal error: ", "unexpected fault"} {
			if strings.HasPrefix(line, start) {
				line = strings.TrimSpace(line)
				return line[:min(len(line), maxCause)]
			}
		}
	}
	stderr = strings.TrimSpace(stderr)
	return stderr[max(0, len(stderr)-maxCause):]
}
