package web

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
)

// The Open Inference Protocol, version 2, over HTTP (kserve/open-inference-protocol,
// specification/protocol/inference_rest.md). A model has one input tensor for each field of its schema: BYTES with a
// name in each row for a categorical field, BYTES with a row of names, "" to fill it up, for a multi field, FP64 for a
// numeric one. Of an optional field the tensor may be left out, and "" in a row of a categorical one
// or null in a row of a numeric one means that this event lacks it.

// The names of the output tensors.
const (
	outputsTensor       = "outputs"       // o(x)
	predictionTensor    = "prediction"    // value or class; for multilabel models a BOOL for each class
	probabilitiesTensor = "probabilities" // where the link has them
)

// tensor is an output.
type tensor struct {
	tensorMetadata
	Parameters *binaryPart `json:"parameters,omitempty"` // of elements that follow the JSON object
	Data       any         `json:"data,omitempty"`       // flat, row by row
}

// inferRequest is the body of an inference request. Parameters other than a history are read over.
type inferRequest struct {
	ID string `json:"id,omitzero"` // comes back in the answer
	// Parameters may have "history": events with their labels, as in the topic, oldest first, of an entity that the
	// rows are of; "history_held", how many of these, the first, the version has learned from; and
	// "binary_data_output": whether the elements of all outputs follow the JSON object. Others are not used.
	Parameters jsontext.Value  `json:"parameters,omitzero"`
	Inputs     []requestTensor `json:"inputs"` // one for each field of the schema
	// those that the answer shall have; all of them unless said otherwise
	Outputs []requestOutput `json:"outputs,omitzero"`
}

// requestOutput names a tensor that the answer shall have.
type requestOutput struct {
	Name       string         `json:"name"`                // outputs, prediction or probabilities
	Parameters jsontext.Value `json:"parameters,omitzero"` // binary_data: whether the elements follow the JSON object
}

// requestTensor is an input.
type requestTensor struct {
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

// inferResponse is the answer. The identity is an addition to the protocol.
type inferResponse struct {
	ModelName    string   `json:"model_name"`
	ModelVersion string   `json:"model_version"` // number as text, or live
	ID           string   `json:"id,omitempty"`  // of the request
	Outputs      []tensor `json:"outputs"`       // in the order of the metadata, or of the request
	answered
	folded

	binary []byte // what follows the JSON object
}

// tail returns what follows the JSON object.
func (r inferResponse) tail() []byte { return r.binary }

// infer predicts a row for each element of the input tensors. Elements may follow the JSON object as the binary tensor
// data extension says; the body is application/octet-stream then, and Inference-Header-Content-Length the length of the
// object. So is the answer where that is asked for.
func (s *Server) infer(w http.ResponseWriter, r *http.Request) error {
	return s.withVersion(w, r, func(v *scorer) (any, error) {
		ask, err := readInfer(r)
		if err != nil {
			return nil, err
		}
		past, wholly, err := ask.parameters()
		if err != nil {
			return nil, err
		}
		tensors, followed := outputTensors(v.model), []bool(nil)
		if len(ask.Outputs) > 0 {
			if tensors, followed, err = chooseTensors(tensors, ask, wholly); err != nil {
				return nil, err
			}
		}
		predictions, folded, err := s.predicted(v, ask.Inputs, past, request.InflightOf(r))
		if err != nil {
			return nil, err
		}
		out := inferResponse{
			ModelName:    v.manifest.Model,
			ModelVersion: v.header,
			ID:           ask.ID,
			answered:     v.answered(),
			folded:       folded,
		}
		for i, t := range tensors {
			t.Shape = slices.Clone(t.Shape)
			t.Shape[0] = len(predictions)
			output := tensor{tensorMetadata: t, Data: tensorValues(t, v.model.Schema(), predictions)}
			if followed == nil && wholly || followed != nil && followed[i] {
				before := len(out.binary)
				out.binary = appendElements(out.binary, output.Data)
				output.Parameters, output.Data = &binaryPart{len(out.binary) - before}, nil
			}
			out.Outputs = append(out.Outputs, output)
		}
		return out, nil
	})
}

// predicted returns the predictions for the rows of tensors, whatever protocol they came by.
func (s *Server) predicted(v *scorer, inputs []requestTensor, history past,
	held *request.Inflight) ([]snapshot.Prediction, folded, error) {
	for i := range inputs {
		if err := held.Grow(request.ValueBytes * int64(inputs[i].binaryElements())); err != nil {
			return nil, folded{}, err
		}
	}
	rows, err := rowsOf(v.model.Schema(), inputs, s.Limits(v.manifest.Model).MaxEvents, held)
	if err == nil {
		err = held.Grow(int64(len(rows)) * v.predictionBytes)
	}
	if err != nil {
		return nil, folded{}, err
	}
	v.fill(rows)
	d := v.decoders.Get().(*decoding)
	defer v.decoders.Put(d)
	over, folded, err := v.over(history, d, held)
	if err != nil {
		return nil, folded, err
	}
	predictions, unseen, absent := make([]snapshot.Prediction, len(rows)), 0, 0
	for i := range rows {
		if predictions[i], err = over.Predict(&rows[i]); err != nil {
			return nil, folded, err
		}
		if err = held.GrowForNames(predictions[i].Unseen, predictions[i].Absent); err != nil {
			return nil, folded, err
		}
		unseen, absent = unseen+len(predictions[i].Unseen), absent+len(predictions[i].Absent)
	}
	s.counted(v, len(rows), unseen, absent)
	return predictions, folded, nil
}

// parameters returns the history, nil without one, and whether the elements of all outputs follow the JSON object.
func (ask *inferRequest) parameters() (past, bool, error) {
	if len(ask.Parameters) == 0 {
		return past{}, false, nil
	}
	var parameters struct {
		past
		Binary bool `json:"binary_data_output"`
	}
	err := request.Unmarshal(`"parameters"`, ask.Parameters, &parameters, atMost(0))
	return parameters.past, parameters.Binary, err
}

// chooseTensors returns the tensors that a request names, in its order, and of which the elements follow the JSON
// object: all of them, with wholly, unless an output says otherwise.
func chooseTensors(all []tensorMetadata, ask *inferRequest,
	wholly bool) (chosen []tensorMetadata, followed []bool, err error) {
	for _, o := range ask.Outputs {
		i := slices.IndexFunc(all, func(t tensorMetadata) bool { return t.Name == o.Name })
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

// tensorValues returns the elements of an output tensor, row by row.
func tensorValues(t tensorMetadata, s *snapshot.Schema, predictions []snapshot.Prediction) any {
	values, names, set := []report.Number{}, []string{}, []bool{}
	for i := range predictions {
		p := &predictions[i]
		switch {
		case t.Name == outputsTensor:
			values = append(values, report.Numbers(p.Outputs)...)
		case t.Name == probabilitiesTensor:
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
