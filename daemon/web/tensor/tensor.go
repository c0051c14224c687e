// Package tensor turns the tensors of the Open Inference Protocol, version 2, into events and predictions into tensors,
// and describes both: as JSON (kserve/open-inference-protocol, specification/protocol/inference_rest.md), as elements
// behind the JSON object, and as messages of gRPC. It loads no model and predicts nothing. Its functions may be called
// from any goroutine; a request belongs to one.
//
// A model has one input tensor for each field of its schema: BYTES with a name in each row for a categorical field,
// BYTES with a row of names, "" to fill it up, for a multi field, FP64 for a numeric one. Of an optional field the
// tensor may be left out, and "" in a row of a categorical one or null in a row of a numeric one means that this event
// lacks it.
package tensor

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
)

// The names of the output tensors.
const (
	OutputsTensor       = "outputs"       // o(x)
	PredictionTensor    = "prediction"    // value or class; for multilabel models a BOOL for each class
	ProbabilitiesTensor = "probabilities" // where the link has them
)

// Tensor is an output.
type Tensor struct {
	TensorMetadata
	Parameters *BinaryPart `json:"parameters,omitempty"` // of elements that follow the JSON object
	Data       any         `json:"data,omitempty"`       // flat, row by row
}

// InferRequest is the body of an inference request. Parameters other than a history are read over.
type InferRequest struct {
	ID string `json:"id,omitzero"` // comes back in the answer
	// Parameters may have "history": events with their labels, as in the topic, oldest first, of an entity that the
	// rows are of; "history_held", how many of these, the first, the version has learned from; and
	// "binary_data_output": whether the elements of all outputs follow the JSON object. Others are not used.
	Parameters jsontext.Value  `json:"parameters,omitzero"`
	Inputs     []RequestTensor `json:"inputs"` // one for each field of the schema
	// those that the answer shall have; all of them unless said otherwise
	Outputs []RequestOutput `json:"outputs,omitzero"`
}

// RequestOutput names a tensor that the answer shall have.
type RequestOutput struct {
	Name       string         `json:"name"`                // outputs, prediction or probabilities
	Parameters jsontext.Value `json:"parameters,omitzero"` // binary_data: whether the elements follow the JSON object
}

// RequestTensor is an input.
type RequestTensor struct {
	Name string `json:"name"` // field of the schema
	// BYTES or FP64; FP32 is taken, too, and INT64 where names are whole numbers
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"` // rows first, then the elements of each
	// binary_data_size: bytes of the elements, which follow the JSON object
	Parameters jsontext.Value `json:"parameters,omitzero"`
	// flat, or with a list for each row; missing where the binary part of the body has the elements
	Data jsontext.Value `json:"data,omitzero"`

	binary []byte // the elements, nil where Data has them
}

// Choose returns the tensors that a request names, in its order, and of which the elements follow the JSON object: all
// of them, with wholly, unless an output says otherwise. Its errors are a *request.Error.
func Choose(all []TensorMetadata, ask *InferRequest,
	wholly bool) (chosen []TensorMetadata, followed []bool, err error) {
	for _, o := range ask.Outputs {
		i := slices.IndexFunc(all, func(t TensorMetadata) bool { return t.Name == o.Name })
		if i < 0 {
			return nil, nil, request.BadRequest("outputs: the model has no tensor %q", o.Name)
		}
		parameters := struct {
			Binary bool `json:"binary_data"`
		}{wholly}
		if len(o.Parameters) > 0 {
			if err := request.Unmarshal(fmt.Sprintf(`the "parameters" of the output %q`, o.Name), o.Parameters,
				&parameters); err != nil {
				return nil, nil, err
			}
		}
		chosen, followed = append(chosen, all[i]), append(followed, parameters.Binary)
	}
	return chosen, followed, nil
}

// Values returns the elements of an output tensor, row by row: []report.Number of FP64, []string of BYTES, []bool of
// BOOL.
func Values(t TensorMetadata, s *snapshot.Schema, predictions []snapshot.Prediction) any {
	values, names, set := []report.Number{}, []string{}, []bool{}
	for i := range predictions {
		p := &predictions[i]
		switch {
		case t.Name == OutputsTensor:
			values = append(values, report.Numbers(p.Outputs)...)
		case t.Name == ProbabilitiesTensor:
			values = append(values, report.Numbers(p.Probabilities)...)
		case t.Datatype == "BYTES":
			names = append(names, p.Classes[0])
		case t.Datatype == "BOOL":
			for _, c := range s.Classes {
				set = append(set, slices.Contains(p.Classes, c))
			}
		default:
			values = append(values, report.Number(p.Value))
		}
	}
	switch {
	case t.Datatype == "BYTES":
		return names
	case t.Datatype == "BOOL":
		return set
	}
	return values
}
