package report

import (
	"fmt"
	"io"
)

// Gap says which offsets were declared lost: From to To-1.
type Gap struct {
	Model     string `json:"model"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // first offset declared lost
	To        int64  `json:"to"`   // the next one that is read
	Lost      int64  `json:"lost"` // how many
}

// WriteText prints the gap and what to do next.
func (g Gap) WriteText(w io.Writer) error {
	return say(w,
		"%s/%d: %s declared lost, %d to %d; the next run of model %s reads on at %d; until then --undo takes it back\n",
		g.Topic, g.Partition, Count(g.Lost, "offset"), g.From, g.To-1, g.Model, g.To)
}

// Recreated is a partition of a topic that was made anew and accepted.
type Recreated struct {
	Model       string `json:"model"`
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Incarnation uint32 `json:"incarnation"` // how often the topic was made again
	Start       int64  `json:"start"`       // where the next run begins to read
	Was         *int64 `json:"was"`         // how far the old one was read, null if it had no such partition
}

// WriteText prints where the next run begins.
func (r Recreated) WriteText(w io.Writer) error {
	return say(
		w,
		"%s/%d: made anew, incarnation %d; the next run of model %s begins at offset %d, and the rows of the old "+
			"topic stay\n",
		r.Topic,
		r.Partition,
		r.Incarnation,
		r.Model,
		r.Start,
	)
}

// Undone is a partition whose acceptance was taken back.
type Undone struct {
	Model       string `json:"model"`
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Incarnation uint32 `json:"incarnation,omitempty"` // how often the topic was made again
	Next        int64  `json:"next"`                  // where the next run reads on
	Halted      string `json:"halted,omitempty"`      // why the partition had halted
}

// WriteText prints where the next run reads on.
func (u Undone) WriteText(w io.Writer) error {
	return say(w, "%s/%d: undone; the next run of model %s reads on at %d\n", u.Topic, u.Partition, u.Model, u.Next)
}

// BackupSummary ends state backup and state restore.
type BackupSummary struct {
	Model      string      `json:"model"`
	Path       string      `json:"path"`            // of the backup
	Bytes      int64       `json:"bytes,omitempty"` // of a backup that was written
	State      string      `json:"state,omitempty"` // directory a backup was restored to
	Kept       string      `json:"kept,omitempty"`  // where the state that was there is now
	Lineage    string      `json:"lineage"`
	Format     int         `json:"format"`
	Rows       *SampleRows `json:"rows,omitempty"` // of a backup that was written
	Partitions []Cut       `json:"partitions"`     // where each ends
}

// WriteText prints what was written where.
func (s BackupSummary) WriteText(w io.Writer) error {
	if s.State == "" {
		fmt.Fprintf(w, "%s: %s of model %s, %d bytes\n", s.Path, Count(s.Rows.Train+s.Rows.Holdout, "row"), s.Model,
			s.Bytes)
	} else {
		fmt.Fprintf(w, "%s: restored from %s\n", s.State, s.Path)
		writeKept(w, s.Kept)
	}
	return writeCut(w, s.Partitions)
}

// RebuildTick is emitted by rebuild once a second.
type RebuildTick struct {
	ElapsedSeconds Number `json:"elapsed_seconds"`
	Events         int64  `json:"events"` // read so far
	Lag            int64  `json:"lag"`
	Waiting        string `json:"waiting,omitempty"` // why a state that has caught up is not in its place yet
}

// WriteText prints what is waited for; progress is shown elsewhere.
func (t RebuildTick) WriteText(w io.Writer) error {
	if t.Waiting == "" {
		return nil
	}
	return say(w, "caught up; %s\n", t.Waiting)
}

// RebuildSummary ends state rebuild.
type RebuildSummary struct {
	Seconds Number `json:"seconds"`
	Events  int64  `json:"events"`         // read
	Path    string `json:"path"`           // state directory
	Kept    string `json:"kept,omitempty"` // where the state that was there is now
	State   State  `json:"state"`          // afterwards
}

// WriteText prints where the states are.
func (s RebuildSummary) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: rebuilt from %s in %.0f s: %s, %d held out\n", s.Path, Count(s.Events, "event"),
		float64(s.Seconds), Count(s.State.Rows.Train, "training row"), s.State.Rows.Holdout)
	writeKept(w, s.Kept)
	cut := make([]Cut, 0, len(s.State.Partitions))
	for _, p := range s.State.Partitions {
		cut = append(cut, Cut{Topic: p.Topic, Partition: p.Partition, Next: p.Next})
	}
	return writeCut(w, cut)
}

func writeKept(w io.Writer, kept string) {
	if kept != "" {
		fmt.Fprintf(w, "the state that was there is kept: %s\n", kept)
	}
}

func writeCut(w io.Writer, cut []Cut) error {
	for _, c := range cut {
		if _, err := fmt.Fprintf(w, "  %s/%d: up to offset %d\n", c.Topic, c.Partition, c.Next); err != nil {
			return err
		}
	}
	return nil
}
