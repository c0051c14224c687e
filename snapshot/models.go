package snapshot

import (
	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/format/answer"
	"github.com/refitd/refitd/snapshot/format/where"
	"github.com/refitd/refitd/snapshot/scorer"
)

// What a model is asked and answers: see packages scorer and format for their methods.
type (
	// Model scores events. It is immutable and safe for concurrent use.
	Model = scorer.Model
	// Overlay is a model with what the history of entities adds to it.
	Overlay = scorer.Overlay
	// Scratch is the working memory of Score, ScoreBatch and TopK. One goroutine at a time may use it.
	Scratch = scorer.Scratch
	// Input is an event in the order of the schema.
	Input = format.Input
	// LabelledEvent is an event with its label, for histories.
	LabelledEvent = format.LabelledEvent
	// Prediction is what a model says of one event.
	Prediction = answer.Prediction
	// Query asks for the best names of a field.
	Query = format.Query
	// Condition is one on what tables say of the names that a Query ranks.
	Condition = format.Condition
	// Table is what a version knows of entities.
	Table = format.Table
	// Item is a name that TopK found.
	Item = format.Item
	// Vectors are a model as one inner product a pair.
	Vectors = scorer.Vectors
	// Explanation takes a prediction apart.
	Explanation = scorer.Explanation
	// Term is what some features of an event add to the outputs.
	Term = scorer.Term
	// Schema says which fields an event has.
	Schema = format.Schema
	// Position is the state of a model in its chain of deltas.
	Position = format.Position
)

const (
	// Constant names the column of an augmented model that is 1 in every event, in explanations.
	Constant = scorer.Constant
	// Ruled names what trees add, in explanations.
	Ruled = scorer.Ruled
	// Mapped names what a fourier feature map adds, in explanations.
	Mapped = scorer.Mapped
	// MaxHistory is how many events of an entity Fold takes.
	MaxHistory = scorer.MaxHistory
	// MaxExplained bounds the columns of an event that is explained.
	MaxExplained = scorer.MaxExplained
)

// WhereFromMap reads the conditions of a Query as JSON has them: by column a name, true or false, a list of them, or an
// object with min and max for a number. It returns ErrInput.
func WhereFromMap(conditions map[string]any) ([]Condition, error) { return where.FromMap(conditions) }
