package report

import "io"

// Leftover is something that a restore, a rebuild or a backup left next to a state.
type Leftover struct {
	// restore, rebuild: unfinished; old: a state that was replaced; temporary: an unfinished file
	Kind     string `json:"kind"`
	Path     string `json:"path"`     // of the file or directory
	Bytes    int64  `json:"bytes"`    // of all files in it
	Modified string `json:"modified"` // when it was last written to
}

// WriteText prints what it is and how large.
func (l Leftover) WriteText(w io.Writer) error {
	return say(w, "%-9s  %12d bytes  %s  %s\n", l.Kind, l.Bytes, l.Modified, l.Path)
}

// LeftoversSummary ends versions prune --state.
type LeftoversSummary struct {
	Model   string `json:"model"`
	State   string `json:"state"`   // state directory that they are next to
	Count   int    `json:"count"`   // found
	Removed int    `json:"removed"` // of them
	Bytes   int64  `json:"bytes"`   // of all that were listed
	DryRun  bool   `json:"dry_run"` // nothing was removed, only listed
}

// WriteText prints the sum.
func (s LeftoversSummary) WriteText(w io.Writer) error {
	verb := "removed"
	if s.DryRun {
		verb = "would remove"
	}
	return say(w, "%s %s next to %s, %d bytes\n", verb, Count(s.Count, "leftover"), s.State, s.Bytes)
}
