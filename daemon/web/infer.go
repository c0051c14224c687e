package web

import (
	"net/http"
	"slices"

	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/tensor"
	"github.com/refitd/refitd/snapshot"
)

// inferResponse is the answer. The identity is an addition to the protocol.
type inferResponse struct {
	ModelName    string          `json:"model_name"`
	ModelVersion string          `json:"model_version"` // number as text, or live
	ID           string          `json:"id,omitempty"`  // of the request
	Outputs      []tensor.Tensor `json:"outputs"`       // in the order of the metadata, or of the request
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
		ask, err := tensor.Read(r)
		if err != nil {
			return nil, err
		}
		past, wholly, err := parametersOf(ask)
		if err != nil {
			return nil, err
		}
		tensors, followed := tensor.Outputs(v.model), []bool(nil)
		if len(ask.Outputs) > 0 {
			if tensors, followed, err = tensor.Choose(tensors, ask, wholly); err != nil {
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
			output := tensor.Tensor{TensorMetadata: t, Data: tensor.Values(t, v.model.Schema(), predictions)}
			if followed == nil && wholly || followed != nil && followed[i] {
				before := len(out.binary)
				out.binary = tensor.AppendElements(out.binary, output.Data)
				output.Parameters, output.Data = &tensor.BinaryPart{Size: len(out.binary) - before}, nil
			}
			out.Outputs = append(out.Outputs, output)
		}
		return out, nil
	})
}

// predicted returns the predictions for the rows of tensors, whatever protocol they came by.
func (s *Server) predicted(v *scorer, inputs []tensor.RequestTensor, history past,
	held *request.Inflight) ([]snapshot.Prediction, folded, error) {
	for i := range inputs {
		if err := held.Grow(request.ValueBytes * int64(inputs[i].BinaryElements())); err != nil {
			return nil, folded{}, err
		}
	}
	rows, err := tensor.Rows(v.model.Schema(), inputs, s.Limits(v.manifest.Model).MaxEvents, held)
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

// parametersOf returns the history of a request, nil without one, and whether the elements of all outputs follow the
// JSON object.
func parametersOf(ask *tensor.InferRequest) (past, bool, error) {
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
