package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// Trees are rules of if and else on numbers and names: a sum of symmetric trees, which ask the same question in all
// nodes of a level (Kohavi 1994; Prokhorenkova and others 2018). To the outputs of an event each tree adds those of the
// leaf that the event's answers lead to. Model.Fold makes rows as if there were none. They are read-only once built,
// and safe for concurrent use.
type Trees struct {
	List []Tree
}

// Tree has 2^splits leaves of m outputs each. The answers to its splits are the bits of the leaf, that of the first
// split the lowest.
type Tree struct {
	Splits []Split
	Leaves []float64 // 2^splits × m, row-major
}

// Split asks whether a number is at least an edge, or whether a categorical field has a certain name. What an event
// lacks is answered with no, and so are numbers that are not finite.
type Split struct {
	Field int     // numeric, or −1 − categorical: by their places in the schema
	Edge  float64 // of a numeric field
	Name  string  // of a categorical field
}

// Limits of trees.
const (
	MaxTrees     = 1 << 12
	MaxTreeDepth = 10 // splits of a tree

	// MaxTreesBytes bounds the file.
	MaxTreesBytes = 16 << 20
)

const (
	// TreesFile has the trees of a version. Readers that do not know it refuse the version by its format.
	TreesFile = "trees"
	// treesVersion is that of the file's form. Readers refuse others.
	treesVersion = 1
)

// treesHead is the first line of the file. After it come the trees, a line each.
type treesHead struct {
	Version int `json:"version"`
	Trees   int `json:"trees"`
}

// treeLine is a tree in the file.
type treeLine struct {
	Splits []splitLine `json:"splits"`
	Leaves []float64   `json:"leaves"`
}

// splitLine has either AtLeast or Is.
type splitLine struct {
	Field   string   `json:"field"`
	AtLeast *float64 `json:"at_least,omitempty"`
	Is      *string  `json:"is,omitempty"`
}

// Leaf returns the leaf of an event, given its names and numbers as in Input; nil has none.
func (t *Tree) Leaf(names []string, numeric []float64) (leaf int) {
	for d := range t.Splits {
		s := &t.Splits[d]
		yes := false
		if s.Field < 0 {
			f := -1 - s.Field
			yes = f < len(names) && names[f] == s.Name
		} else if s.Field < len(numeric) {
			v := numeric[s.Field]
			yes = v >= s.Edge && v-v == 0 // which is NaN of infinities
		}
		if yes {
			leaf |= 1 << d
		}
	}
	return leaf
}

// AddTo adds what the trees say of an event to its m outputs. Nil adds nothing. O(trees · splits), without allocations.
func (x *Trees) AddTo(dst []float64, names []string, numeric []float64) {
	if x == nil {
		return
	}
	m := len(dst)
	for i := range x.List {
		t := &x.List[i]
		at := t.Leaf(names, numeric) * m
		for o, v := range t.Leaves[at : at+m] {
			dst[o] += v
		}
	}
}

// NamesOf returns the names of a categorical field that splits ask for, sorted, each once.
func (x *Trees) NamesOf(field int) (names []string) {
	if x == nil {
		return nil
	}
	for i := range x.List {
		for _, s := range x.List[i].Splits {
			if s.Field == -1-field {
				names = append(names, s.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// FieldName returns the name of the field of a split.
func (s *Split) FieldName(of *Schema) string {
	if s.Field < 0 {
		return of.Categorical[-1-s.Field]
	}
	return of.Numeric[s.Field].Name
}

// SaysSomething reports whether a leaf is not 0.
func (x *Trees) SaysSomething() bool {
	return x != nil && slices.ContainsFunc(x.List, func(t Tree) bool {
		return slices.ContainsFunc(t.Leaves, func(v float64) bool { return v != 0 })
	})
}

// Validate checks trees against the other contents.
func (x *Trees) Validate(c *Contents) error {
	if x == nil {
		return nil
	}
	if n := len(x.List); n < 1 || n > MaxTrees {
		return fmt.Errorf("%s: %d trees, want 1 to %d", TreesFile, n, MaxTrees)
	}
	for i := range x.List {
		if err := x.List[i].validate(&c.Schema, c.NumOutputs); err != nil {
			return fmt.Errorf("%s: tree %d: %w", TreesFile, i, err)
		}
	}
	return nil
}

func (t *Tree) validate(s *Schema, outputs int) error {
	depth := len(t.Splits)
	if depth < 1 || depth > MaxTreeDepth {
		return fmt.Errorf("%d splits, want 1 to %d", depth, MaxTreeDepth)
	}
	if want := outputs << depth; len(t.Leaves) != want {
		return fmt.Errorf("%d numbers in its leaves, want %d", len(t.Leaves), want)
	}
	if i := notFinite(t.Leaves); i >= 0 {
		return fmt.Errorf("leaf number %d is %g: it has to be finite", i, t.Leaves[i])
	}
	for d := range t.Splits {
		p := &t.Splits[d]
		switch {
		case p.Field >= len(s.Numeric) || -1-p.Field >= len(s.Categorical):
			return fmt.Errorf("split %d asks for field %d of %d numeric and %d categorical ones", d, p.Field,
				len(s.Numeric), len(s.Categorical))
		case p.Field >= 0 && (!IsFinite(p.Edge) || p.Name != ""):
			return fmt.Errorf("split %d of %q: edge %g and name %q, want a finite edge alone", d, p.FieldName(s), p.Edge,
				p.Name)
		case p.Field < 0 && (p.Name == "" || p.Edge != 0 || !utf8.ValidString(p.Name)):
			return fmt.Errorf("split %d of %q: name %q and edge %g, want a name alone", d, p.FieldName(s), p.Name, p.Edge)
		}
	}
	return nil
}

// Encode returns the file. The trees are valid for the schema.
func (x *Trees) Encode(s *Schema) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(treesHead{treesVersion, len(x.List)}); err != nil {
		return nil, err
	}
	for i := range x.List {
		t := &x.List[i]
		line := treeLine{Splits: make([]splitLine, len(t.Splits)), Leaves: t.Leaves}
		for d := range t.Splits {
			p := &t.Splits[d]
			line.Splits[d].Field = p.FieldName(s)
			if p.Field < 0 {
				line.Splits[d].Is = &p.Name
			} else {
				line.Splits[d].AtLeast = &p.Edge
			}
		}
		if err := enc.Encode(line); err != nil {
			return nil, err
		}
	}
	if b.Len() > MaxTreesBytes {
		return nil, fmt.Errorf("%s of %d bytes, the limit is %d: fewer classes", TreesFile, b.Len(), MaxTreesBytes)
	}
	return b.Bytes(), nil
}

// DecodeTrees is the inverse of Encode. What it returns is not validated yet, but for its fields.
func DecodeTrees(b []byte, s *Schema) (*Trees, error) {
	var head treesHead
	rest, err := decodeHead(TreesFile, b, &head, &head.Version, treesVersion)
	if err != nil {
		return nil, err
	}
	if head.Trees < 1 || head.Trees > MaxTrees {
		return nil, fmt.Errorf("%s: %w: %d trees, want 1 to %d", TreesFile, disk.ErrFormat, head.Trees, MaxTrees)
	}
	x := &Trees{List: make([]Tree, 0, head.Trees)}
	for n := 2; len(rest) > 0; n++ {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		t, err := decodeTree(line, s)
		if err == nil && !whole {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w: %v", TreesFile, n, disk.ErrFormat, err)
		}
		x.List, rest = append(x.List, t), after
	}
	if len(x.List) != head.Trees {
		return nil, fmt.Errorf("%s: %w: %d trees on %d lines", TreesFile, disk.ErrFormat, head.Trees, len(x.List))
	}
	return x, nil
}

func decodeTree(b []byte, s *Schema) (t Tree, err error) {
	var line treeLine
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields() // a tree has nothing that changes no score
	if err := dec.Decode(&line); err != nil {
		return t, err
	}
	if dec.More() {
		return t, fmt.Errorf("more than one JSON object")
	}
	t = Tree{Splits: make([]Split, len(line.Splits)), Leaves: line.Leaves}
	for d, p := range line.Splits {
		numeric := slices.IndexFunc(s.Numeric, func(f NumericField) bool { return f.Name == p.Field })
		categorical := slices.Index(s.Categorical, p.Field)
		switch {
		case numeric >= 0 && p.AtLeast != nil && p.Is == nil:
			t.Splits[d] = Split{Field: numeric, Edge: *p.AtLeast}
		case categorical >= 0 && p.Is != nil && p.AtLeast == nil:
			t.Splits[d] = Split{Field: -1 - categorical, Name: *p.Is}
		default:
			return t, fmt.Errorf("split %d of %q: want a numeric field and at_least, or a categorical one and is", d, p.Field)
		}
	}
	return t, nil
}
