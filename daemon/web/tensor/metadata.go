package tensor

import (
	"slices"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TensorMetadata describes a tensor; -1 means a size that varies.
type TensorMetadata struct {
	Name     string `json:"name"`               // field, or outputs, prediction, probabilities
	Datatype string `json:"datatype"`           // BYTES, FP64 or BOOL
	Shape    []int  `json:"shape"`              // rows first
	Optional bool   `json:"optional,omitempty"` // input: events may lack it, and requests may leave it out
}

// Inputs describes what a request has: a tensor for each field of the schema.
func Inputs(s *snapshot.Schema) []TensorMetadata {
	var list []TensorMetadata
	add := func(name, datatype string, shape ...int) {
		list = append(list, TensorMetadata{name, datatype, shape, slices.Contains(s.Optional, name)})
	}
	for _, name := range s.Categorical {
		add(name, "BYTES", -1)
	}
	for _, f := range s.Numeric {
		add(f.Name, "FP64", -1)
	}
	for _, name := range s.Multi {
		add(name, "BYTES", -1, -1)
	}
	return list
}

// Outputs describes what a version answers with, as far as its link has it.
func Outputs(m *snapshot.Model) []TensorMetadata {
	list := []TensorMetadata{{Name: OutputsTensor, Datatype: "FP64", Shape: []int{-1, m.NumOutputs()}}}
	manifest := m.Manifest()
	switch m.Schema().Task {
	case format.Multiclass:
		list = append(list, TensorMetadata{Name: PredictionTensor, Datatype: "BYTES", Shape: []int{-1}})
	case format.Multilabel:
		list = append(list, TensorMetadata{Name: PredictionTensor, Datatype: "BOOL", Shape: []int{-1, m.NumOutputs()}})
	default:
		list = append(list, TensorMetadata{Name: PredictionTensor, Datatype: "FP64", Shape: []int{-1}})
	}
	if n := NumProbabilities(m.Schema(), manifest.Link, m.NumOutputs()); n > 0 {
		list = append(list, TensorMetadata{Name: ProbabilitiesTensor, Datatype: "FP64", Shape: []int{-1, n}})
	}
	return list
}

// NumProbabilities returns the length of answer.Prediction.Probabilities, 0 where the link has none.
func NumProbabilities(s *snapshot.Schema, link string, outputs int) int {
	switch {
	case link == format.Softmax, link == format.Logistic && s.Task == format.Multilabel:
		return outputs
	case link == format.Logistic && s.Task == format.Binary:
		return 2
	case link == format.OrdinalLink:
		return s.Levels
	}
	return 0
}
