package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Interaction is what two features together, or three of a kernel of degree 3, add to an output, beyond what each adds
// alone.
type Interaction struct {
	Features []string `json:"features"` // two names such as user=u1, of a kernel of degree 3 three
	Weight   Number   `json:"weight"`   // for values of 1: names, and numbers one scale away from their center
}

// OutputBelief is what a version believes about one output.
type OutputBelief struct {
	Output       string        `json:"output"`       // class, "rating ≤ 2", or the label
	BasisUsed    int           `json:"basis_used"`   // basis vectors with a weight for it
	Interactions []Interaction `json:"interactions"` // the largest, by absolute weight
	Exact        bool          `json:"exact"`        // no larger one exists; false if the search was cut short
}

// FieldRelevance is how much a field moves predictions.
type FieldRelevance struct {
	Field string `json:"field"` // name of the field
	Share Number `json:"share"` // of what all fields move, from 0 to 1
}

// EntityOutput is what a version believes of one name for one output.
type EntityOutput struct {
	Output string `json:"output"` // class, "rating ≤ 2", or the label
	Alone  Number `json:"alone"`  // what the name adds alone
	// the largest with others, by absolute weight; none of a kernel of degree 3
	Interactions []Interaction `json:"interactions"`
}

// Entity is what a version knows of one name of a field.
type Entity struct {
	Field   string         `json:"field"`   // of the name
	Name    string         `json:"name"`    // that was asked for
	Known   bool           `json:"known"`   // whether the version has it
	Outputs []EntityOutput `json:"outputs"` // the first of them; none of a name that it does not know
	Similar []string       `json:"similar"` // names that begin like one that it does not know
	// what tables say of it, by field: text, a list of names or a number; absent for nothing
	Tables map[string]any `json:"tables,omitempty"`
}

// BasisUsage is a basis vector with its weight for each output shown.
type BasisUsage struct {
	BasisVector
	Weights []Number `json:"weights"` // one for each output shown
}

// VersionSizes is what a version takes.
type VersionSizes struct {
	Bytes      int64          `json:"bytes"`      // of its files
	Parameters int            `json:"parameters"` // numbers in all tensors
	Nonzero    int            `json:"nonzero"`    // of these, not zero
	Features   map[string]int `json:"features"`   // names by field
}

// Ancestor is a version that a version was made from.
type Ancestor struct {
	Version  int64  `json:"version"` // number of the ancestor
	Kind     string `json:"kind"`
	Decision string `json:"decision"`
	Created  string `json:"created"`
}

// Belief is what a version has learned, by name.
type Belief struct {
	Outputs      []OutputBelief `json:"outputs"`       // the first of them
	OutputsTotal int            `json:"outputs_total"` // more than shown if there are many
	Basis        []BasisUsage   `json:"basis"`         // the vectors, largest share first
	Sizes        VersionSizes   `json:"sizes"`         // of the version
	Lineage      []Ancestor     `json:"lineage"`       // parents as far as they are in the store, nearest first
}

// WriteText prints what tables say of the name, what it adds to each output, and what it interacts with most.
func (e *Entity) WriteText(w io.Writer) error {
	for _, field := range slices.Sorted(maps.Keys(e.Tables)) {
		fmt.Fprintf(w, "%s=%s: %s is %v by a table\n", e.Field, e.Name, field, e.Tables[field])
	}
	for _, o := range e.Outputs {
		fmt.Fprintf(w, "%s=%s adds %s to %s\n", e.Field, e.Name, plain(o.Alone), o.Output)
		if err := writeInteractions(w, o.Interactions); err != nil {
			return err
		}
	}
	if e.Known {
		return nil
	}
	similar := ""
	if len(e.Similar) > 0 {
		similar = "; names that begin like it: " + strings.Join(e.Similar, ", ")
	}
	return say(w, "%s=%s has no weights in this version%s\n", e.Field, e.Name, similar)
}

func writeInteractions(w io.Writer, list []Interaction) error {
	rows := [][]string{}
	for _, x := range list {
		row := []string{"", x.Features[0]}
		for _, name := range x.Features[1:] {
			row = append(row, "×", name)
		}
		rows = append(rows, append(row, plain(x.Weight)))
	}
	return table(w, rows)
}

// WriteText prints the top interactions of each output, the basis and the sizes.
func (b *Belief) WriteText(w io.Writer) error {
	for _, o := range b.Outputs {
		more := ""
		if !o.Exact {
			more = " (search cut short: there may be larger ones)"
		}
		fmt.Fprintf(w, "%s: %s%s\n", o.Output, Count(o.BasisUsed, "basis vector"), more)
		if err := writeInteractions(w, o.Interactions); err != nil {
			return err
		}
	}
	if n := b.OutputsTotal - len(b.Outputs); n > 0 {
		fmt.Fprintf(w, "and %d more outputs\n", n)
	}
	for _, v := range b.Basis {
		fmt.Fprintf(w, "basis vector %d: %.1f %% of the interactions: %s\n", v.Index, 100*float64(v.Share),
			strings.Join(v.Features, ", "))
	}
	fmt.Fprintf(w, "%d bytes, %s, %d of them not zero\n", b.Sizes.Bytes, Count(b.Sizes.Parameters, "parameter"),
		b.Sizes.Nonzero)
	for _, a := range b.Lineage {
		fmt.Fprintf(w, "from version %d (%s, %s, %s)\n", a.Version, a.Kind, a.Decision, a.Created)
	}
	return nil
}
