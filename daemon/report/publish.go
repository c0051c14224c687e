package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/refitd/refitd/snapshot/publish"
)

// Alias is an alias of a model.
type Alias struct {
	Model          string `json:"model"`
	Alias          string `json:"alias"`
	Version        int64  `json:"version"`
	ManifestDigest string `json:"manifest_digest"`
	Sequence       int64  `json:"sequence"`
	Moved          string `json:"moved,omitempty"`   // when
	Event          string `json:"event,omitempty"`   // of the move: publish, promote, rollback or alias
	Signature      string `json:"signature"`         // unsigned, or key and its id
	Rebuilt        bool   `json:"rebuilt,omitempty"` // just now, from the publish log
}

// WriteText prints a line.
func (a Alias) WriteText(w io.Writer) error {
	rebuilt := ""
	if a.Rebuilt {
		rebuilt = "  rebuilt from the publish log"
	}
	return say(w, "%-12s version %-6d %s  %s  %s%s\n", a.Alias, a.Version, a.Moved, a.Event, a.Signature, rebuilt)
}

// ListedVersion is a published version in a list.
type ListedVersion struct {
	Model          string   `json:"model"`
	Version        int64    `json:"version"`
	Kind           string   `json:"kind"`    // refit or update
	Parent         *int64   `json:"parent"`  // version that this one started from; null for the first
	Created        string   `json:"created"` // when it was made
	K              int      `json:"k"`
	Rows           int64    `json:"rows"`     // trained on
	Decision       string   `json:"decision"` // of the gate: promoted or kept
	Aliases        []string `json:"aliases"`  // that name it
	ManifestDigest string   `json:"manifest_digest"`
	PayloadDigest  string   `json:"payload_digest"`
	Signature      string   `json:"signature"` // unsigned, or key and its id
}

// WriteText prints a line.
func (v ListedVersion) WriteText(w io.Writer) error {
	line := fmt.Sprintf("version %-6d %s  %-6s  %-8s  %s  %s", v.Version, v.Created, v.Kind, v.Decision, v.Signature,
		strings.Join(v.Aliases, " "))
	return say(w, "%s\n", strings.TrimRight(line, " "))
}

// ListSummary ends versions list.
type ListSummary struct {
	Model    string           `json:"model"`
	Versions int              `json:"versions"` // listed
	Aliases  map[string]int64 `json:"aliases"`  // versions by the names of the aliases
}

// WriteText prints the number of versions.
func (s ListSummary) WriteText(w io.Writer) error {
	return say(w, "%s of %s\n", Count(s.Versions, "version"), s.Model)
}

// Stray is something in the directory of a model that is no part of the store: it is ignored.
type Stray struct {
	Model  string `json:"model"`
	Path   string `json:"path"`            // below the store
	Alias  string `json:"alias,omitempty"` // that is damaged; absent if it is no alias at all
	Reason string `json:"reason"`          // what is wrong with it
}

// WriteText prints a line.
func (s Stray) WriteText(w io.Writer) error {
	what := "ignored"
	if s.Alias != "" {
		what = "damaged"
	}
	return say(w, "%-12s %s: %s\n", what, s.Path, s.Reason)
}

// AliasesSummary ends versions alias.
type AliasesSummary struct {
	Model   string           `json:"model"`
	Aliases map[string]int64 `json:"aliases"`
}

// WriteText prints nothing: the lines say it.
func (AliasesSummary) WriteText(io.Writer) error { return nil }

// AliasMove ends versions promote and versions rollback.
type AliasMove struct {
	Model          string `json:"model"`
	Alias          string `json:"alias"`
	From           int64  `json:"from"`    // 0 is none
	Version        int64  `json:"version"` // that the alias names now
	Sequence       int64  `json:"sequence"`
	Time           string `json:"time"` // of the move
	ManifestDigest string `json:"manifest_digest"`
	PayloadDigest  string `json:"payload_digest"`
	Why            string `json:"why"` // as given with --why
	By             string `json:"by"`  // who asked for it
}

// WriteText prints the move.
func (m *AliasMove) WriteText(w io.Writer) error {
	from := "nothing"
	if m.From != 0 {
		from = fmt.Sprint("version ", m.From)
	}
	return say(w, "%s of %s: %s to version %d (%s)\n", m.Alias, m.Model, from, m.Version, m.PayloadDigest)
}

// LogRecord is a line of the publish log.
type LogRecord struct{ publish.Record }

// WriteText prints the record on one line.
func (r LogRecord) WriteText(w io.Writer) error {
	text := fmt.Sprintf("%s %5d %-9s", r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), r.Sequence, r.Event)
	if r.Version != 0 {
		text += fmt.Sprintf(" version %d", r.Version)
	}
	for _, m := range r.Moves {
		text += fmt.Sprintf(", %s %d to %d", m.Alias, m.From, m.To)
	}
	if len(r.Removed) > 0 {
		text += fmt.Sprintf(" removed %d", r.Removed)
	}
	for _, part := range []string{r.Kind, r.Decision, r.Reason, r.Why, r.By} {
		if part != "" {
			text += "; " + part
		}
	}
	return say(w, "%s\n", text)
}

// Live is what an alias named at a time.
type Live struct {
	At      string         `json:"at"` // the time asked for
	Alias   string         `json:"alias"`
	Version int64          `json:"version"`
	Since   publish.Record `json:"since"` // the record that moved it there
}

// WriteText prints the version and the record.
func (l Live) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%-12s version %d, since ", l.Alias, l.Version)
	return LogRecord{l.Since}.WriteText(w)
}

// LogSummary ends versions log.
type LogSummary struct {
	Model   string           `json:"model"`
	Records int              `json:"records"`           // printed
	At      string           `json:"at,omitempty"`      // the time asked for
	Aliases map[string]int64 `json:"aliases,omitempty"` // at that time
}

// WriteText says so if nothing was live; otherwise the lines say it.
func (s LogSummary) WriteText(w io.Writer) error {
	if s.At == "" || s.Records > 0 {
		return nil
	}
	return say(w, "nothing of %s was live at %s\n", s.Model, s.At)
}

// PruneSummary ends versions prune.
type PruneSummary struct {
	Model   string  `json:"model"`
	Removed []int64 `json:"removed"` // numbers of the versions
	DryRun  bool    `json:"dry_run"` // nothing was removed, only listed
}

// WriteText prints the versions.
func (s PruneSummary) WriteText(w io.Writer) error {
	verb := "removed"
	if s.DryRun {
		verb = "would remove"
	}
	return say(w, "%s %s of %s %v\n", verb, Count(len(s.Removed), "version"), s.Model, s.Removed)
}

// KeysSummary ends keys new.
type KeysSummary struct {
	KeyID       string `json:"key_id"`       // that manifests and pointers name
	PrivateFile string `json:"private_file"` // for publish.signing_key_file
	PublicFile  string `json:"public_file"`  // for those who verify
}

// WriteText prints where the keys are and what to do with them.
func (s KeysSummary) WriteText(w io.Writer) error {
	return say(w, "key %s\n  publish.signing_key_file: %s\n  trusted by consumers:     %s\n", s.KeyID, s.PrivateFile,
		s.PublicFile)
}
