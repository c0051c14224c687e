package event

import "github.com/refitd/refitd/consumer/event/framing"

// A Leaf is a place in the values of a schema at which there may be something for a field: what is there is no object.
type Leaf struct {
	Path    []string // names of members, from the outermost
	Kind    LeafKind
	Item    LeafKind // of the elements of a LeafList
	IsTime  bool     // the type says that it is a time
	Unit    Unit     // of a time that is a number
	Scale   int      // of a LeafDecimal that may be text in base64
	Symbols []string // of a LeafEnum, as far as the schema lists them
	Doc     string   // what the schema says about it, "" for nothing
	IsKey   bool     // it is in the key of a record
}

// LeafKind is what the values at a leaf are.
type LeafKind uint8

// The kinds of leaves.
const (
	LeafOther LeafKind = iota // of several types, or of one that no field can have
	LeafBool
	LeafWhole
	LeafReal
	LeafDecimal
	LeafText
	LeafEnum
	LeafBytes
	LeafList
	LeafMap
)

// IsName reports whether values of the kind may be names, as in a list of names.
func (k LeafKind) IsName() bool {
	return k == LeafText || k == LeafEnum || k == LeafWhole || k == LeafBytes || k == LeafDecimal
}

// MaxLeaves bounds the leaves of one schema: a mapping has at most as many fields.
const MaxLeaves = 1000

// MaxOutlined bounds the types within types that are looked at for them.
const MaxOutlined = 100_000

// An Outliner lists the leaves of values of a schema, at most MaxLeaves, of objects within objects at most maxDepth
// deep. The frame of a value says which of the messages of a Protobuf schema it is.
type Outliner func(w *Writer, f *framing.Frame, maxDepth int) ([]Leaf, error)
