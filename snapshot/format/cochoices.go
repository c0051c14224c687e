package format

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/refitd/refitd/snapshot/internal/disk"
)

// CoChoices are names that are chosen by the same entities: similarity of items as such. With them a list puts names
// higher that go with what was chosen last. To the output of name i, TopK adds
//
//	Scale · log(1 + Weight Σ_k 2^(−k/HalfLife) lift(h_k, i))
//
// where h_0, h_1, … are the last choices of who asks, newest first: those of a history, else those of Recent. lift is
// how many times as often two names are chosen by the same entity as if choices were independent. Score, Predict and
// Explain do not have it. It is part of what a version publishes, but not of the payload digest.
type CoChoices struct {
	Over     string // the categorical field whose names are chosen
	By       string // the categorical field of who chooses
	HalfLife float64
	Weight   float64
	Scale    float64 // that of the outputs, where they are calibrated
	// Neighbours of each name of Over, in the order of the vocabulary. It may be shorter than that.
	Neighbours [][]Neighbour
	// Recent choices of each name of By, oldest first, as places in the vocabulary of Over; -1 is a name that it does
	// not have. It may be shorter than the vocabulary of By.
	Recent [][]int32
}

// Neighbour is a name that is chosen with another one.
type Neighbour struct {
	Place int32 // in the vocabulary of the field
	Lift  float32
}

// Limits of co-choices.
const (
	MaxNeighbours = 64 // of a name
	MaxRecent     = 64 // choices of an entity

	// MaxCoChoicesBytes bounds the file.
	MaxCoChoicesBytes = 256 << 20
)

const (
	// CoChoicesFile has the co-choices of a version. Readers that do not know of them make lists without.
	CoChoicesFile = "cochoices"
	// coChoicesVersion is that of the file's form. Readers refuse others.
	coChoicesVersion = 1
)

// coChoicesHead is the first line of the file. After it come, for each name of over, how many neighbours it has (2
// bytes) and their places (4 bytes) and lifts (float32); then, for each name of by, how many choices (2 bytes) and
// their places (4 bytes). Numbers are little-endian.
type coChoicesHead struct {
	Version  int     `json:"version"`
	Over     string  `json:"over"`
	By       string  `json:"by"`
	HalfLife float64 `json:"half_life"`
	Weight   float64 `json:"weight"`
	Scale    float64 `json:"scale"`
	Names    int     `json:"names"`
	Entities int     `json:"entities"`
}

// Fields returns the places of both fields in the schema.
func (x *CoChoices) Fields(s *Schema) (over, by int) {
	return slices.Index(s.Categorical, x.Over), slices.Index(s.Categorical, x.By)
}

// Validate checks co-choices against the other contents, whose vocabulary is there.
func (x *CoChoices) Validate(c *Contents) error {
	if x == nil {
		return nil
	}
	over, by := x.Fields(&c.Schema)
	isPositive := func(v float64) bool { return IsFinite(v) && v > 0 }
	switch {
	case over < 0 || by < 0 || over == by:
		return fmt.Errorf("co-choices over %q by %q: want two categorical fields", x.Over, x.By)
	case c.Schema.Task != Binary || c.Link != Logistic:
		return fmt.Errorf("co-choices of task %s with link %s: want %s and %s", c.Schema.Task, c.Link, Binary, Logistic)
	case !isPositive(x.HalfLife) || !isPositive(x.Weight) || !isPositive(x.Scale):
		return fmt.Errorf("co-choices: half-life %g, weight %g and scale %g: want positive numbers", x.HalfLife, x.Weight,
			x.Scale)
	case len(x.Neighbours) > len(c.Vocabulary[over]) || len(x.Recent) > len(c.Vocabulary[by]):
		return fmt.Errorf("co-choices of %d names and %d entities, the vocabulary has %d and %d",
			len(x.Neighbours), len(x.Recent), len(c.Vocabulary[over]), len(c.Vocabulary[by]))
	}
	names := int32(len(c.Vocabulary[over]))
	for i, list := range x.Neighbours {
		if len(list) > MaxNeighbours {
			return fmt.Errorf("co-choices: name %d has %d neighbours, at most %d", i, len(list), MaxNeighbours)
		}
		for _, n := range list {
			if n.Place < 0 || n.Place >= names || !isPositive(float64(n.Lift)) {
				return fmt.Errorf("co-choices: name %d has neighbour %d of %d with lift %g", i, n.Place, names, n.Lift)
			}
		}
	}
	for i, list := range x.Recent {
		if len(list) > MaxRecent {
			return fmt.Errorf("co-choices: entity %d has %d choices, at most %d", i, len(list), MaxRecent)
		}
		for _, place := range list {
			if place < -1 || place >= names {
				return fmt.Errorf("co-choices: entity %d has chosen name %d of %d", i, place, names)
			}
		}
	}
	return nil
}

// Encode returns the file.
func (x *CoChoices) Encode() ([]byte, error) {
	head, err := json.Marshal(coChoicesHead{coChoicesVersion, x.Over, x.By, x.HalfLife, x.Weight, x.Scale,
		len(x.Neighbours), len(x.Recent)})
	if err != nil {
		return nil, err
	}
	b := append(head, '\n')
	for _, list := range x.Neighbours {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(list)))
		for _, n := range list {
			b = binary.LittleEndian.AppendUint32(b, uint32(n.Place))
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(n.Lift))
		}
	}
	for _, list := range x.Recent {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(list)))
		for _, place := range list {
			b = binary.LittleEndian.AppendUint32(b, uint32(place)) // 2^32−1 for -1
		}
	}
	if len(b) > MaxCoChoicesBytes {
		return nil, fmt.Errorf("%s of %d bytes, the limit is %d: lower train.fold_in.max_rows",
			CoChoicesFile, len(b), MaxCoChoicesBytes)
	}
	return b, nil
}

// DecodeCoChoices is the inverse of Encode. What it returns is not validated yet.
func DecodeCoChoices(b []byte) (*CoChoices, error) {
	var head coChoicesHead
	rest, err := decodeHead(CoChoicesFile, b, &head, &head.Version, coChoicesVersion)
	if err != nil {
		return nil, err
	}
	const count, neighbour, place = 2, 8, 4 // bytes
	if head.Names < 0 || head.Entities < 0 || head.Names > len(rest)/count || head.Entities > len(rest)/count {
		return nil, fmt.Errorf("%s: %w: %d names and %d entities in %d bytes", CoChoicesFile, disk.ErrFormat, head.Names,
			head.Entities, len(rest))
	}
	// next returns the next list of elements of a size, nil where the file ends before.
	next := func(size int) []byte {
		if len(rest) < count {
			return nil
		}
		n := count + size*int(binary.LittleEndian.Uint16(rest))
		if len(rest) < n {
			return nil
		}
		list := rest[count:n:n]
		rest = rest[n:]
		return list
	}
	x := &CoChoices{Over: head.Over, By: head.By, HalfLife: head.HalfLife, Weight: head.Weight, Scale: head.Scale,
		Neighbours: make([][]Neighbour, head.Names), Recent: make([][]int32, head.Entities)}
	short := fmt.Errorf("%s: %w: it ends before its lists do", CoChoicesFile, disk.ErrFormat)
	for i := range x.Neighbours {
		list := next(neighbour)
		if list == nil {
			return nil, short
		}
		x.Neighbours[i] = make([]Neighbour, 0, len(list)/neighbour)
		for ; len(list) > 0; list = list[neighbour:] {
			lift := math.Float32frombits(binary.LittleEndian.Uint32(list[place:]))
			x.Neighbours[i] = append(x.Neighbours[i], Neighbour{int32(binary.LittleEndian.Uint32(list)), lift})
		}
	}
	for i := range x.Recent {
		list := next(place)
		if list == nil {
			return nil, short
		}
		x.Recent[i] = make([]int32, 0, len(list)/place)
		for ; len(list) > 0; list = list[place:] {
			x.Recent[i] = append(x.Recent[i], int32(binary.LittleEndian.Uint32(list)))
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%s: %w: %d bytes follow its lists", CoChoicesFile, disk.ErrFormat, len(rest))
	}
	return x, nil
}

// AllFiles returns the files of the version but its manifest and signatures.
func (m *Manifest) AllFiles() []File {
	files := m.ReadFiles()
	if m.CutFile != nil {
		files = append(files, *m.CutFile)
	}
	return files
}

// ReadFiles returns those of AllFiles that Open and Watch read.
func (m *Manifest) ReadFiles() []File {
	files := slices.Clone(m.Files)
	for _, block := range []*File{m.CoChoices, m.Trees, m.Tables} {
		if block != nil {
			files = append(files, *block)
		}
	}
	return files
}
