package report

import (
	"fmt"
	"io"
	"strings"
)

// BasisVector is a basis vector of one version: its share of the interactions, by ‖V_r‖·‖h_r‖^degree, and its
// strongest features.
type BasisVector struct {
	Index    int      `json:"index"`    // from 0, in its version
	Share    Number   `json:"share"`    // of the interactions, from 0 to 1
	Features []string `json:"features"` // the strongest, by name
}

// BasisMatch is a basis vector that both versions have.
type BasisMatch struct {
	A      int    `json:"a"`       // index in version A
	B      int    `json:"b"`       // index in version B
	Cosine Number `json:"cosine"`  // absolute, over the features of both
	ShareA Number `json:"share_a"` // of the interactions, in version A
	ShareB Number `json:"share_b"` // and in version B
}

// BasisDiff says which basis vectors stayed, came and went.
type BasisDiff struct {
	Kept []BasisMatch  `json:"kept"` // in both versions
	In   []BasisVector `json:"in"`   // of B alone
	Out  []BasisVector `json:"out"`  // of A alone
}

// FieldDiff counts the features of a field that came and went, with the first few by name.
type FieldDiff struct {
	Field    string   `json:"field"`     // name of the field
	Common   int      `json:"common"`    // features in both versions
	In       int      `json:"in"`        // in B alone
	Out      int      `json:"out"`       // in A alone
	InNames  []string `json:"in_names"`  // the first few
	OutNames []string `json:"out_names"` // the first few
}

// Churn says how far the predictions of two versions for the same events are apart.
type Churn struct {
	Events int `json:"events"` // compared
	// of the difference of numbers, else of probabilities, or of outputs of models without probabilities
	MeanAbsolute    Number  `json:"mean_absolute"`
	LargestAbsolute Number  `json:"largest_absolute"` // of the same
	RankCorrelation *Number `json:"rank_correlation"` // Spearman's, mean over the outputs; null where one side is constant
	ChangedClasses  *Number `json:"changed_classes"`  // share of the events; null for numbers
}

// VersionSide is one of two versions that are compared.
type VersionSide struct {
	Version       int64    `json:"version"`
	Kind          string   `json:"kind"`
	Created       string   `json:"created"`
	PayloadDigest string   `json:"payload_digest"`
	ConfigHash    string   `json:"config_hash"`
	K             int      `json:"k"`
	Features      int      `json:"features"`
	Lambda        Number   `json:"lambda"`
	Rows          int64    `json:"rows"`         // trained on
	Form          string   `json:"form"`         // convex, variational or update
	GapRelative   *Number  `json:"gap_relative"` // over the objective; null but for convex models
	Optimality    string   `json:"optimality"`   // how far the refit got, for people
	Gate          *Metrics `json:"gate"`         // as judged, each on its own held-out events
	HeldOut       *Metrics `json:"held_out"`     // on the same kept held-out events; null if none are kept
}

// row is a line of a table.
func (s *VersionSide) row() []string {
	return []string{whole(s.Version), whole(s.K), whole(s.Features), plain(s.Lambda), whole(s.Rows), s.Optimality}
}

// DiffSummary ends versions diff.
type DiffSummary struct {
	Model    string      `json:"model"`
	A        VersionSide `json:"a"`        // the first version
	B        VersionSide `json:"b"`        // the second version
	Same     bool        `json:"same"`     // the payloads are equal
	Basis    BasisDiff   `json:"basis"`    // of the interactions
	Features []FieldDiff `json:"features"` // by field
	Golden   Churn       `json:"golden"`   // on the golden events of both
	HeldOut  *Churn      `json:"held_out"` // on the kept held-out events; null if none are
}

// WriteText prints the comparison as a few short tables.
func (s DiffSummary) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: version %d (%s) and version %d (%s)\n", s.Model, s.A.Version, s.A.Kind, s.B.Version, s.B.Kind)
	if s.Same {
		return say(w, "the payloads are equal\n")
	}
	if err := table(w, [][]string{{"version", "k", "features", "λ per 10,000 rows", "rows", "refit"}, s.A.row(),
		s.B.row()}); err != nil {
		return err
	}
	fmt.Fprintf(w, "basis vectors: %d kept, %d in, %d out\n", len(s.Basis.Kept), len(s.Basis.In), len(s.Basis.Out))
	for _, v := range s.Basis.In {
		fmt.Fprintf(w, "  in   %d: %.1f %% of the interactions: %s\n", v.Index, 100*float64(v.Share),
			strings.Join(v.Features, ", "))
	}
	for _, v := range s.Basis.Out {
		fmt.Fprintf(w, "  out  %d: %.1f %% of the interactions: %s\n", v.Index, 100*float64(v.Share),
			strings.Join(v.Features, ", "))
	}
	rows := [][]string{{"field", "common", "in", "out", ""}}
	for _, f := range s.Features {
		rows = append(rows, []string{f.Field, whole(f.Common), whole(f.In), whole(f.Out), someNames(f)})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	s.Golden.write(w, "golden events")
	if s.HeldOut != nil {
		s.HeldOut.write(w, "held-out events")
	}
	return writeMetrics(w, named{fmt.Sprintf("gate, version %d", s.A.Version), s.A.Gate},
		named{fmt.Sprintf("gate, version %d", s.B.Version), s.B.Gate},
		named{fmt.Sprintf("held out, version %d", s.A.Version), s.A.HeldOut},
		named{fmt.Sprintf("held out, version %d", s.B.Version), s.B.HeldOut})
}

func someNames(f FieldDiff) string {
	var parts []string
	for _, n := range f.InNames {
		parts = append(parts, "+"+n)
	}
	for _, n := range f.OutNames {
		parts = append(parts, "-"+n)
	}
	return strings.Join(parts, " ")
}

func (c *Churn) write(w io.Writer, what string) {
	fmt.Fprintf(w, "%s: %d, mean |Δ| %s, largest %s, rank correlation %s", what, c.Events, plain(c.MeanAbsolute),
		plain(c.LargestAbsolute), number(c.RankCorrelation))
	if c.ChangedClasses != nil {
		fmt.Fprintf(w, ", %.1f %% of the classes changed", 100*float64(*c.ChangedClasses))
	}
	fmt.Fprintln(w)
}
