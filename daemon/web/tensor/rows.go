package tensor

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
)

// Rows turns the input tensors into events, at most limit of them. held takes what they have in the fields of tensors
// that the body left out. Its errors are a *request.Error or a *request.RejectedError.
func Rows(s *snapshot.Schema, inputs []RequestTensor, limit int, held *request.Inflight) ([]snapshot.Input, error) {
	byName := make(map[string]*RequestTensor, len(inputs))
	for i := range inputs {
		t := &inputs[i]
		if byName[t.Name] != nil {
			return nil, request.BadRequest("inputs: the tensor %q is there twice", t.Name)
		}
		byName[t.Name] = t
	}
	var rows []snapshot.Input
	wanted := Inputs(s)
	for i, want := range wanted {
		t := byName[want.Name]
		if t == nil && want.Optional {
			continue
		}
		if t == nil {
			return nil, request.BadRequest("inputs: the tensor %q is missing", want.Name)
		}
		delete(byName, want.Name)
		n, width, err := t.size(&want)
		if err != nil {
			return nil, err
		}
		if rows == nil {
			if n > limit {
				return nil, request.BadRequest("inputs: %d rows, serve.max_events allows %d", n, limit)
			}
			if err := held.Grow(request.ValueBytes * int64(n) * int64(max(0, len(wanted)-len(inputs)))); err != nil {
				return nil, err
			}
			rows = newRows(s, n)
		}
		if n != len(rows) {
			return nil, request.BadRequest("inputs: the tensor %q has %d rows, others have %d", t.Name, n, len(rows))
		}
		if err := t.store(s, &want, rows, i, width); err != nil {
			return nil, err
		}
	}
	if rows == nil {
		return nil, request.BadRequest("inputs: there is no tensor, so the number of rows is not known")
	}
	for name := range byName {
		return nil, request.BadRequest("inputs: the model has no tensor %q", name)
	}
	return rows, nil
}

// store stores a tensor in the rows; i is the place of its field in the lists of the schema, one after the other.
func (t *RequestTensor) store(s *snapshot.Schema, want *TensorMetadata, rows []snapshot.Input, i, width int) error {
	field := i // within the schema's list: categorical, numeric, multi
	if i < len(s.Categorical) {
		return t.categorical(rows, field, s.IsOptional(want.Name))
	}
	if field -= len(s.Categorical); want.Datatype == "FP64" {
		return t.numbers(rows, field, want.Optional)
	}
	field -= len(s.Numeric)
	return t.names(rows, width, func(row *snapshot.Input, list []string) { row.Multi[field] = distinct(list) })
}

func newRows(s *snapshot.Schema, n int) []snapshot.Input {
	rows := make([]snapshot.Input, n)
	for i := range rows {
		rows[i] = snapshot.Input{
			Categorical: make([]string, len(s.Categorical)),
			Numeric:     make([]float64, len(s.Numeric)),
			Multi:       make([][]string, len(s.Multi)),
		}
		for f := range rows[i].Numeric {
			rows[i].Numeric[f] = math.NaN() // absent, until there is a number
		}
	}
	return rows
}

// size returns the rows of a tensor and the elements of each. A tensor with one element in each row may have the shape
// [n] or [n, 1].
func (t *RequestTensor) size(want *TensorMetadata) (rows, width int, err error) {
	if t.Datatype != want.Datatype && !(want.Datatype == "FP64" && t.Datatype == "FP32") &&
		!(want.Datatype == "BYTES" && t.Datatype == "INT64") {
		return 0, 0, request.BadRequest("inputs: the tensor %q has the datatype %q, the model takes %s", t.Name, t.Datatype,
			want.Datatype)
	}
	width = 1
	if len(t.Shape) == 2 {
		width = t.Shape[1]
	}
	if len(t.Shape) < 1 || len(t.Shape) > 2 || t.Shape[0] < 0 || len(want.Shape) == 1 && width != 1 || len(t.Shape) < len(
		want.Shape) ||
		width < 0 ||
		width > event.DefaultLimits().MaxMulti {
		return 0, 0, request.BadRequest("inputs: the tensor %q has the shape %v, the model takes %v", t.Name, t.Shape,
			want.Shape)
	}
	return t.Shape[0], width, nil
}

// names hands each row the names that a tensor has for it.
func (t *RequestTensor) names(rows []snapshot.Input, width int, set func(row *snapshot.Input, list []string)) error {
	list, err := elements[string](t, len(rows)*width, nil)
	if err != nil {
		return err
	}
	longest := event.DefaultLimits().MaxIDBytes
	for i, name := range list {
		if len(name) > longest {
			return request.BadRequest("inputs: the tensor %q has an element of %d bytes at %d, at most %d are allowed", t.Name,
				len(name), i, longest)
		}
	}
	for i := range rows {
		set(&rows[i], list[i*width:(i+1)*width])
	}
	return nil
}

// categorical stores the names of a tensor in a categorical field.
func (t *RequestTensor) categorical(rows []snapshot.Input, field int, optional bool) error {
	err := t.names(rows, 1, func(row *snapshot.Input, list []string) { row.Categorical[field] = list[0] })
	for i := range rows {
		if err == nil && rows[i].Categorical[field] == "" && !optional {
			err = request.Rejected(fmt.Sprintf("inputs: row %d", i),
				&event.Rejection{Reason: event.MissingField, Field: t.Name, Expected: "a name", Got: "nothing"})
		}
	}
	return err
}

// numbers stores the numbers of a tensor in a numeric field; null is none.
func (t *RequestTensor) numbers(rows []snapshot.Input, field int, optional bool) error {
	var absent *float64
	if optional {
		absent = new(math.NaN())
	}
	list, err := elements(t, len(rows), absent)
	if err != nil {
		return err
	}
	largest := event.DefaultLimits().MaxNumber
	for i, v := range list {
		if math.Abs(v) > largest {
			return request.BadRequest("inputs: the tensor %q has a number of magnitude above %g at %d", t.Name, largest, i)
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

// elements returns the elements of a tensor, which may be nested by rows or flat. It ends at the first one that its
// shape has no place for. null means absent or, if that is nil, is refused.
func elements[T string | float64](t *RequestTensor, want int, absent *T) ([]T, error) {
	if t.binary != nil {
		return binaryElements(t, want, absent)
	}
	r := &elementReader[T]{RequestTensor: t, want: want, absent: absent, list: make([]T, 0, min(want, len(t.Data)))}
	if t.Data.Kind() != '[' {
		return nil, r.notList()
	}
	r.in = jsontext.NewDecoder(bytes.NewBuffer(t.Data), event.HalfPairs) // which was found to be JSON
	_, _ = r.in.ReadToken()
	read := r.elements
	if r.in.PeekKind() == '[' {
		read = r.rows
	}
	if err := read(); err != nil {
		return nil, err
	}
	if len(r.list) != want {
		return nil, request.BadRequest("inputs: the tensor %q has %d elements, its shape %v asks for %d", t.Name,
			len(r.list), t.Shape, want)
	}
	return r.list, nil
}

// elementReader reads the elements of a tensor from JSON.
type elementReader[T string | float64] struct {
	*RequestTensor
	want   int
	absent *T
	in     *jsontext.Decoder
	list   []T // what was read
}

func (r *elementReader[T]) notList() error {
	return request.BadRequest("inputs: the data of the tensor %q is not a list of %s, flat or with a list for each row",
		r.Name, r.Datatype)
}

// rows reads a list for each row, up to the end of the outer list.
func (r *elementReader[T]) rows() error {
	rows := 0
	for ; r.in.PeekKind() != ']'; rows++ {
		if r.in.PeekKind() != '[' {
			return r.notList()
		}
		before := len(r.list)
		_, _ = r.in.ReadToken()
		if err := r.elements(); err != nil {
			return err
		}
		_, _ = r.in.ReadToken()
		if len(r.Shape) != 2 || len(r.list)-before != r.Shape[1] {
			return request.BadRequest("inputs: row %d of the tensor %q does not have the size of its shape %v", rows, r.Name,
				r.Shape)
		}
	}
	if rows != r.Shape[0] {
		return r.notList()
	}
	return nil
}

// elements reads up to the end of a list.
func (r *elementReader[T]) elements() error {
	for r.in.PeekKind() != ']' {
		if err := r.element(); err != nil {
			return err
		}
	}
	return nil
}

func (r *elementReader[T]) element() error {
	if len(r.list) == r.want {
		return request.BadRequest("inputs: the tensor %q has more elements than the %d that its shape %v asks for", r.Name,
			r.want, r.Shape)
	}
	token, err := r.in.ReadToken()
	if err != nil {
		return r.notList()
	}
	if token.Kind() == 'n' && r.absent != nil {
		r.list = append(r.list, *r.absent)
		return nil
	}
	if token.Kind() == 'n' { // it is no element, and would else be read as the zero of its type
		return request.BadRequest("inputs: the tensor %q has a null at %d", r.Name, len(r.list))
	}
	v, ok := element[T](token)
	if !ok {
		return r.notList()
	}
	r.list = append(r.list, v)
	return nil
}

// element returns a token as an element of a tensor.
func element[T string | float64](token jsontext.Token) (v T, ok bool) {
	switch p := any(&v).(type) {
	case *string:
		if *p, ok = token.String(), token.Kind() == '"'; token.Kind() == '0' {
			*p, ok = request.WholeName([]byte(*p))
		}
	case *float64:
		var err error
		*p, err = strconv.ParseFloat(token.String(), 64)
		ok = err == nil && token.Kind() == '0'
	}
	return v, ok
}
