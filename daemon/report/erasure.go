package report

import (
	"fmt"
	"io"
)

// Subject is a marker of the state: whose events are kept out of the samples, by a digest.
type Subject struct {
	Field   string `json:"field"`   // of the event that names the subject
	Subject string `json:"subject"` // sha256 of field and value
	Rows    int64  `json:"rows"`    // taken out
	Done    bool   `json:"done"`    // none is left
}

// Erasure ends state forget: what was taken out, and the proof that nothing is left.
type Erasure struct {
	Model       string  `json:"model"`
	Field       string  `json:"field"`        // of the event that names the subject
	Subject     string  `json:"subject"`      // sha256 of field and value
	Rows        int     `json:"rows"`         // taken out now
	Letters     int     `json:"letters"`      // dead letters taken out
	RowsLeft    int     `json:"rows_left"`    // found when everything was read again
	KeptSamples int     `json:"kept_samples"` // of publish.keep_sample: those that held the subject, removed
	Versions    []int64 `json:"versions"`     // published versions that name the subject
	State       State   `json:"state"`        // afterwards
}

// WriteText prints the proof.
func (e Erasure) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "forgotten: %s %s of model %s: %s and %s taken out, %s left; sample %s, lineage %s\n", e.Field,
		e.Subject, e.Model, Count(e.Rows, "row"), Count(e.Letters, "dead letter"), Count(e.RowsLeft, "row"),
		e.State.SampleDigest, e.State.Lineage)
	if e.KeptSamples > 0 {
		fmt.Fprintf(w,
			"%d samples kept with versions held it and are removed: those versions cannot be reproduced any more\n",
			e.KeptSamples)
	}
	if len(e.Versions) > 0 {
		fmt.Fprintf(w, "versions %v name it and are left as they are: a refit makes the next one without it, "+
			"publish.keep and publish.keep_for retire them\n", e.Versions)
	}
	return say(
		w,
		"backups, states kept by rebuild and restore, and the topic itself are not touched; what is restored from them "+
			"leaves it out\n",
	)
}
