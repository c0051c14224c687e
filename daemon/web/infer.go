package web

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot"
)

// The Open Inference Protocol, version 2, over HTTP (kserve/open-inference-protocol, specification/protocol/inference_rest.md). A model
// has one input tensor for each field of its schema: BYTES with a name in each row for a categorical field, BYTES with a row of names,
// "" to fill it up, for a multi field, FP64 for a numeric one. "" in a categorical field means that it is missing.

// The names of the output tensors.
const (
	outputsTensor       = "outputs"       // o(x)
	predictionTensor    = "prediction"    // value or class; for multilabel models a BOOL for each class
	probabilitiesTensor = "probabilities" // where the link has them
)

// platform names the kind of model in its metadata.
const platform = "refitd_interaction"

// tensorMetadata describes a tensor; -1 stands for a size that varies.
type tensorMetadata struct {
	Name     string `json:"name"`     // field, or outputs, prediction, probabilities
	Datatype string `json:"datatype"` // BYTES, FP64 or BOOL
	Shape    []int  `json:"shape"`    // rows first
}

// modelMetadata is the answer about a model. The identity is beside what the protocol asks for.
type modelMetadata struct {
	Name     string           `json:"name"`     // of the model
	Versions []string         `json:"versions"` // numbers, oldest first
	Platform string           `json:"platform"` // refitd_interaction
	Inputs   []tensorMetadata `json:"inputs"`   // one for each field of the schema
	Outputs  []tensorMetadata `json:"outputs"`  // what an answer has
	identity
}

// tensor is an output.
type tensor struct {
	tensorMetadata
	Data any `json:"data"` // flat, row by row
}

// inferRequest is the body of an inference request. Parameters are read over: none is defined.
type inferRequest struct {
	ID         string          `json:"id,omitzero"`         // comes back in the answer
	Parameters jsontext.Value  `json:"parameters,omitzero"` // not used
	Inputs     []requestTensor `json:"inputs"`              // one for each field of the schema
	Outputs    []requestOutput `json:"outputs,omitzero"`    // those that the answer shall have; all of them unless said otherwise
}

// requestOutput names a tensor that the answer shall have.
type requestOutput struct {
	Name       string         `json:"name"`                // outputs, prediction or probabilities
	Parameters jsontext.Value `json:"parameters,omitzero"` // not used
}

// requestTensor is an input.
type requestTensor struct {
	Name       string         `json:"name"`                // field of the schema
	Datatype   string         `json:"datatype"`            // BYTES or FP64; FP32 is taken, too
	Shape      []int          `json:"shape"`               // rows first, then the elements of each
	Parameters jsontext.Value `json:"parameters,omitzero"` // not used
	Data       jsontext.Value `json:"data"`                // flat, or with a list for each row
}

// inferResponse is the answer. The identity is beside what the protocol asks for.
type inferResponse struct {
	ModelName    string   `json:"model_name"`
	ModelVersion string   `json:"model_version"` // number, as text
	ID           string   `json:"id,omitempty"`  // of the request
	Outputs      []tensor `json:"outputs"`       // in the order of the metadata, or of the request
	identity
}

// serverMetadata names the program.
type serverMetadata struct {
	Name       string   `json:"name"`       // refitd
	Version    string   `json:"version"`    // of the program
	Extensions []string `json:"extensions"` // none
}

// serverMetadata answers with the name and version of the program.
func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, serverMetadata{"refitd", s.Version, []string{}})
}

// serverHealth is the answer to both health requests: the protocol's own page names the field of readiness "live", its servers "ready".
type serverHealth struct {
	Live  bool `json:"live"`  // true
	Ready bool `json:"ready"` // every model has a champion
}

// live answers that the server runs, and whether it could infer.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, serverHealth{Live: true, Ready: s.allServed()})
}

// serverReady answers whether every model has a champion to infer with.
func (s *Server) serverReady(w http.ResponseWriter, _ *http.Request) error {
	h, status := serverHealth{Live: true, Ready: s.allServed()}, http.StatusOK
	if !h.Ready {
		status = http.StatusServiceUnavailable
	}
	return answer(w, status, h)
}

// allServed reports whether every model has a champion to infer with.
func (s *Server) allServed() bool {
	for _, cache := range s.caches {
		if cache.champion() == nil {
			return false
		}
	}
	return true
}

// modelReadyAnswer says whether a version of a model can infer.
type modelReadyAnswer struct {
	Name  string `json:"name"`  // of the model
	Ready bool   `json:"ready"` // the version, or a champion, can be loaded
}

// modelReady answers whether the champion, or the version of the path, can infer.
func (s *Server) modelReady(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	status := http.StatusOK
	v, err := s.chosen(r)
	if _, bad := errors.AsType[*requestError](err); bad { // no version has such a number
		return err
	} else if err != nil {
		status = http.StatusServiceUnavailable
	} else {
		w.Header().Set(versionHeader, v.header)
	}
	return answer(w, status, modelReadyAnswer{cache.Name, err == nil})
}

// modelMetadata answers with the input and output tensors of the champion, or of the version of the path.
func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) error {
	cache, err := s.cached(r)
	if err != nil {
		return err
	}
	v, err := s.chosen(r)
	if err != nil {
		return err
	}
	versions, err := cache.Store.Versions(cache.Name)
	if err != nil {
		return err
	}
	m := modelMetadata{Name: cache.Name, Versions: []string{}, Platform: platform, Inputs: inputTensors(v.model.Schema()),
		Outputs: outputTensors(v.model), identity: v.identity()}
	for _, n := range versions {
		m.Versions = append(m.Versions, strconv.FormatInt(n, 10))
	}
	w.Header().Set(versionHeader, v.header)
	return answer(w, http.StatusOK, m)
}

func inputTensors(s *snapshot.Schema) []tensorMetadata {
	var list []tensorMetadata
	for _, name := range s.Categorical {
		list = append(list, tensorMetadata{name, "BYTES", []int{-1}})
	}
	for _, f := range s.Numeric {
		list = append(list, tensorMetadata{f.Name, "FP64", []int{-1}})
	}
	for _, name := range s.Multi {
		list = append(list, tensorMetadata{name, "BYTES", []int{-1, -1}})
	}
	return list
}

// outputTensors describes what a version answers with, as far as its link has it.
func outputTensors(m *snapshot.Model) []tensorMetadata {
	list := []tensorMetadata{{outputsTensor, "FP64", []int{-1, m.NumOutputs()}}}
	manifest := m.Manifest()
	switch m.Schema().Task {
	case snapshot.Multiclass:
		list = append(list, tensorMetadata{predictionTensor, "BYTES", []int{-1}})
	case snapshot.Multilabel:
		list = append(list, tensorMetadata{predictionTensor, "BOOL", []int{-1, m.NumOutputs()}})
	default:
		list = append(list, tensorMetadata{predictionTensor, "FP64", []int{-1}})
	}
	if n := numProbabilities(m.Schema(), manifest.Link, m.NumOutputs()); n > 0 {
		list = append(list, tensorMetadata{probabilitiesTensor, "FP64", []int{-1, n}})
	}
	return list
}

// numProbabilities returns the length of snapshot.Prediction.Probabilities.
func numProbabilities(s *snapshot.Schema, link string, outputs int) int {
	switch {
	case link == snapshot.Softmax, link == snapshot.Logistic && s.Task == snapshot.Multilabel:
		return outputs
	case link == snapshot.Logistic && s.Task == snapshot.Binary:
		return 2
	case link == snapshot.OrdinalLink:
		return s.Levels
	}
	return 0
}

// infer predicts a row for each element of the input tensors.
func (s *Server) infer(w http.ResponseWriter, r *http.Request) error {
	return s.withVersion(w, r, func(v *scorer) (any, error) {
		var ask inferRequest
		if err := readJSON(r, &ask); err != nil {
			return nil, err
		}
		held := inflightOf(r)
		rows, err := rowsOf(v.model.Schema(), ask.Inputs, s.Limits(v.manifest.Model).MaxEvents)
		if err == nil {
			err = held.grow(int64(len(rows)) * v.predictionBytes)
		}
		if err != nil {
			return nil, err
		}
		tensors := outputTensors(v.model)
		if len(ask.Outputs) > 0 {
			if tensors, err = chooseTensors(tensors, &ask); err != nil {
				return nil, err
			}
		}
		predictions, unseen := make([]snapshot.Prediction, len(rows)), 0
		for i := range rows {
			if predictions[i], err = v.model.Predict(&rows[i]); err != nil {
				return nil, err
			}
			if err = held.growForNames(predictions[i].Unseen); err != nil {
				return nil, err
			}
			unseen += len(predictions[i].Unseen)
		}
		s.counted(v, len(rows), unseen)
		out := inferResponse{ModelName: v.manifest.Model, ModelVersion: v.header, ID: ask.ID, identity: v.identity()}
		for _, t := range tensors {
			t.Shape = slices.Clone(t.Shape)
			t.Shape[0] = len(rows)
			out.Outputs = append(out.Outputs, tensor{t, tensorValues(t, v.model.Schema(), predictions)})
		}
		return out, nil
	})
}

// chooseTensors returns the tensors that a request names, in its order.
func chooseTensors(all []tensorMetadata, ask *inferRequest) ([]tensorMetadata, error) {
	var chosen []tensorMetadata
	for _, o := range ask.Outputs {
		i := slices.IndexFunc(all, func(t tensorMetadata) bool { return t.Name == o.Name })
		if i < 0 {
			return nil, badRequest("outputs: the model has no tensor %q", o.Name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
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

// rowsOf turns the input tensors into events.
func rowsOf(s *snapshot.Schema, inputs []requestTensor, limit int) ([]snapshot.Input, error) {
	byName := make(map[string]*requestTensor, len(inputs))
	for i := range inputs {
		t := &inputs[i]
		if byName[t.Name] != nil {
			return nil, badRequest("inputs: the tensor %q is there twice", t.Name)
		}
		byName[t.Name] = t
	}
	var rows []snapshot.Input
	for i, want := range inputTensors(s) {
		t := byName[want.Name]
		if t == nil {
			return nil, badRequest("inputs: the tensor %q is missing", want.Name)
		}
		delete(byName, want.Name)
		n, width, err := t.size(&want)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			if n > limit {
				return nil, badRequest("inputs: %d rows, serve.max_events allows %d", n, limit)
			}
			rows = newRows(s, n)
		}
		if n != len(rows) {
			return nil, badRequest("inputs: the tensor %q has %d rows, others have %d", t.Name, n, len(rows))
		}
		field := i // within the schema's list: categorical, numeric, multi
		switch {
		case i < len(s.Categorical):
			err = t.names(rows, width, func(row *snapshot.Input, list []string) { row.Categorical[field] = list[0] })
		case want.Datatype == "FP64":
			field -= len(s.Categorical)
			err = t.numbers(rows, field)
		default:
			field -= len(s.Categorical) + len(s.Numeric)
			err = t.names(rows, width, func(row *snapshot.Input, list []string) { row.Multi[field] = distinct(list) })
		}
		if err != nil {
			return nil, err
		}
	}
	for name := range byName {
		return nil, badRequest("inputs: the model has no tensor %q", name)
	}
	return rows, nil
}

func newRows(s *snapshot.Schema, n int) []snapshot.Input {
	rows := make([]snapshot.Input, n)
	for i := range rows {
		rows[i] = snapshot.Input{Categorical: make([]string, len(s.Categorical)), Numeric: make([]float64, len(s.Numeric)),
			Multi: make([][]string, len(s.Multi))}
	}
	return rows
}

// size returns the rows of a tensor and the elements of each. A tensor with one element in each row may have the shape [n] or [n, 1].
func (t *requestTensor) size(want *tensorMetadata) (rows, width int, err error) {
	if t.Datatype != want.Datatype && !(want.Datatype == "FP64" && t.Datatype == "FP32") {
		return 0, 0, badRequest("inputs: the tensor %q has the datatype %q, the model takes %s", t.Name, t.Datatype, want.Datatype)
	}
	width = 1
	if len(t.Shape) == 2 {
		width = t.Shape[1]
	}
	if len(t.Shape) < 1 || len(t.Shape) > 2 || t.Shape[0] < 0 || len(want.Shape) == 1 && width != 1 || len(t.Shape) < len(want.Shape) ||
		width < 0 || width > event.DefaultLimits().MaxMulti {
		return 0, 0, badRequest("inputs: the tensor %q has the shape %v, the model takes %v", t.Name, t.Shape, want.Shape)
	}
	return t.Shape[0], width, nil
}

// names hands each row the names that a tensor has for it.
func (t *requestTensor) names(rows []snapshot.Input, width int, set func(row *snapshot.Input, list []string)) error {
	list, err := elements[string](t, len(rows)*width)
	if err != nil {
		return err
	}
	longest := event.DefaultLimits().MaxIDBytes
	for i, name := range list {
		if len(name) > longest {
			return badRequest("inputs: the tensor %q has an element of %d bytes at %d, at most %d are allowed", t.Name, len(name), i, longest)
		}
	}
	for i := range rows {
		set(&rows[i], list[i*width:(i+1)*width])
	}
	return nil
}

// numbers stores the numbers of a tensor in a numeric field.
func (t *requestTensor) numbers(rows []snapshot.Input, field int) error {
	list, err := elements[float64](t, len(rows))
	if err != nil {
		return err
	}
	largest := event.DefaultLimits().MaxNumber
	for i, v := range list {
		if math.Abs(v) > largest {
			return badRequest("inputs: the tensor %q has a number of magnitude above %g at %d", t.Name, largest, i)
		}
		rows[i].Numeric[field] = v
	}
	return nil
}

// distinct returns the names of a multi field without filling and repetitions, as the decoder of events does.
func distinct(list []string) []string {
	list = slices.DeleteFunc(slices.Clone(list), func(name string) bool { return name == "" })
	slices.Sort(list)
	return slices.Compact(list)
}

// elements returns the elements of a tensor, which may be nested by rows or flat. It ends at the first one that its shape has no place for.
func elements[T string | float64](t *requestTensor, want int) ([]T, error) {
	notList := badRequest("inputs: the data of the tensor %q is not a list of %s, flat or with a list for each row", t.Name, t.Datatype)
	in := jsontext.NewDecoder(bytes.NewBuffer(t.Data)) // which was found to be JSON
	list, rows := make([]T, 0, min(want, len(t.Data))), 0
	next := func() error {
		if len(list) == want {
			return badRequest("inputs: the tensor %q has more elements than the %d that its shape %v asks for", t.Name, want, t.Shape)
		}
		token, err := in.ReadToken()
		if err != nil {
			return notList
		}
		if token.Kind() == 'n' { // it is no element, and would else be read as the zero of its type
			return badRequest("inputs: the tensor %q has a null at %d", t.Name, len(list))
		}
		v, ok := element[T](token)
		if !ok {
			return notList
		}
		list = append(list, v)
		return nil
	}
	if t.Data.Kind() != '[' {
		return nil, notList
	}
	_, _ = in.ReadToken()
	nested := in.PeekKind() == '['
	for in.PeekKind() != ']' {
		if nested && in.PeekKind() != '[' {
			return nil, notList
		}
		before := len(list)
		if nested {
			_, _ = in.ReadToken()
		}
		for !nested && len(list) == before || nested && in.PeekKind() != ']' {
			if err := next(); err != nil {
				return nil, err
			}
		}
		if nested {
			_, _ = in.ReadToken()
			if rows++; len(t.Shape) != 2 || len(list)-before != t.Shape[1] {
				return nil, badRequest("inputs: row %d of the tensor %q does not have the size of its shape %v", rows-1, t.Name, t.Shape)
			}
		}
	}
	if nested && rows != t.Shape[0] {
		return nil, notList
	}
	if len(list) != want {
		return nil, badRequest("inputs: the tensor %q has %d elements, its shape %v asks for %d", t.Name, len(list), t.Shape, want)
	}
	return list, nil
}

// element returns a token as an element of a tensor.
func element[T string | float64](token jsontext.Token) (v T, ok bool) {
	switch p := any(&v).(type) {
	case *string:
		*p, ok = token.String(), token.Kind() == '"'
	case *float64:
		var err error
		*p, err = strconv.ParseFloat(token.String(), 64)
		ok = err == nil && token.Kind() == '0'
	}
	return v, ok
}
