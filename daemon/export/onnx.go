package export

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// What the file is written for: Opset is that of the default domain. Opset 17 with version 2 of the ML operators is
// read by every onnxruntime since 1.12.
const (
	onnxIR      = 8
	Opset       = 17
	onnxMLOpset = 2
)

// ErrNoInputs is returned for a model without fields: an ONNX graph takes the number of events from its inputs.
var ErrNoInputs = errors.New("export: the model has no fields, so an ONNX graph of it has no inputs")

// Field is an input of the graph.
type Field struct {
	Name     string
	Kind     string // categorical, multi or numeric
	Type     string // string or float64
	Optional bool   // an event may lack it
}

// ONNX returns a published model as an ONNX file that maps names to columns itself, so that it needs no separate
// vocabulary, and its inputs in order. double keeps the tensors in float64; otherwise they and the outputs are
// float32. The inputs are, for n events,
//
//	categorical field  string  [n]     the name; "" is missing
//	multi field        string  [n, l]  the names, filled up with ""
//	numeric field      float64 [n]     NaN is missing
//
// and the outputs
//
//	outputs        [n, m]  o(x)
//	prediction     [n]     number (regression, binary, ordinal), class name (multiclass), or [n, m] bool (multilabel)
//	probabilities  as Prediction.Probabilities of package snapshot; absent where the link has none
//
// A graph computes crosses itself.
//
// What is missing contributes nothing. A graph refuses no event: if a field is missing that is not optional, the
// outputs are NaN. Versions written before fields could be optional let any be missing.
//
// An output whose name a field has gets an underscore behind it.
func ONNX(m *snapshot.Model, double bool) ([]byte, []Field, error) {
	manifest, c := m.Manifest(), m.Contents()
	b := &builder{graph: newGraph(float32Type), c: c, degree: manifest.Degree}
	if double {
		b.real = float64Type
	}
	fields, err := b.build()
	if err != nil {
		return nil, nil, err
	}
	file, err := b.model(&manifest)
	return file, fields, err
}

// model wraps the graph in a ModelProto: ir_version = 1, producer_name = 2, producer_version = 3, model_version = 5,
// graph = 7, opset_import = 8 with domain = 1 and version = 2, metadata_props = 14 with key = 1 and value = 2.
func (b *builder) model(manifest *snapshot.Manifest) ([]byte, error) {
	var m message
	m.number(1, onnxIR)
	m.text(2, "refitd")
	m.text(3, manifest.Writer)
	m.number(5, manifest.Version)
	m.bytes(7, b.encode("refitd"))
	for _, o := range []struct {
		domain  string
		version int64
	}{{"", Opset}, {mlDomain, onnxMLOpset}} {
		var set message
		set.text(1, o.domain)
		set.number(2, o.version)
		m.bytes(8, set)
	}
	s := &b.c.Schema
	classes := ""
	if len(s.Classes) > 0 {
		list, err := json.Marshal(s.Classes)
		if err != nil {
			return nil, fmt.Errorf("export: classes: %w", err)
		}
		classes = string(list)
	}
	optional := ""
	if len(s.Optional) > 0 {
		list, err := json.Marshal(s.Optional)
		if err != nil {
			return nil, fmt.Errorf("export: optional fields: %w", err)
		}
		optional = string(list)
	}
	for _, p := range [][2]string{{"refitd_model", manifest.Model}, {"refitd_version", strconv.FormatInt(manifest.Version,
		10)},
		{"refitd_payload_digest", manifest.PayloadDigest}, {"refitd_task", s.Task}, {"refitd_label", s.Label},
		{"refitd_kernel", b.c.Kernel}, {"refitd_degree", strconv.Itoa(b.degree)}, {"refitd_link", b.c.Link},
		{"refitd_classes", classes},
		{"refitd_optional", optional}} {
		if p[1] == "" {
			continue
		}
		var entry message
		entry.text(1, p[0])
		entry.text(2, p[1])
		m.bytes(14, entry)
	}
	return m, nil
}

// builder makes the graph of one model.
type builder struct {
	*graph
	c      *format.Contents
	degree int

	powers [][]string // powers[t-1]: parts of Σ_j (h_r,j x_j)^t, each [n, k] or [1, k]
	linear []string   // parts of the linear term, each [n, m] or [1, m]
	absent []string   // 0, or NaN for an event that lacks a field which is not optional, each [n, 1]
}

func (b *builder) build() ([]Field, error) {
	s := &b.c.Schema
	fields := fieldsOf(s)
	if len(fields) == 0 {
		return nil, ErrNoInputs
	}
	for _, f := range fields {
		b.taken[f.Name] = true
	}
	b.powers = make([][]string, b.degree)
	inputs, value, finite := map[string]string(nil), "", ""
	if len(s.Categorical)+len(s.Multi) > 0 {
		inputs = b.namedFields()
	}
	if len(s.Numeric) > 0 {
		value, finite = b.numericFields()
	}
	b.trees(value, finite, inputs)
	d, k, m := b.c.NumFeatures, b.c.NumBasis, b.c.NumOutputs
	if s.Augment {
		last := d - 1
		b.part(func(table string) string { return table }, b.rows(b.c.Basis, last, d, k, 0),
			b.rows(b.c.Linear, last, d, m, 0), nil)
	}
	// The bias is spread over the events of the first input, so that there is a row for each even where nothing else
	// has one.
	count := b.node("Shape", []string{fields[0].Name}, intAttribute("start", 0), intAttribute("end", 1))
	shape := b.node("Concat", []string{count, b.axes(1)}, intAttribute("axis", 0))
	parts := []string{b.node("Expand", []string{b.constant([]int{1, m}, b.c.Bias...), shape})}
	parts = append(append(parts, b.linear...), b.absent...)
	if k > 0 {
		kernel, scale := b.kernel()
		weights := make([]float64, k*m)
		for i, v := range b.c.Weights {
			weights[i] = v / scale
		}
		parts = append(parts, b.node("MatMul", []string{kernel, b.constant([]int{k, m}, weights...)}))
	}
	outputs := b.limited(b.sum(parts...))
	b.result(outputs, "outputs", b.real, "n", m)
	b.link(outputs)
	return fields, nil
}

func fieldsOf(s *snapshot.Schema) []Field {
	var fields []Field
	add := func(name, kind, typ string) { fields = append(fields, Field{name, kind, typ, s.IsOptional(name)}) }
	for _, name := range s.Categorical {
		add(name, "categorical", "string")
	}
	for _, name := range s.Multi {
		add(name, "multi", "string")
	}
	for _, f := range s.Numeric {
		add(f.Name, "numeric", "float64")
	}
	return fields
}

// rows adds rows first..last-1 of a feature-major d×width table as a tensor, with zero rows behind them; "" if there
// is nothing.
func (b *builder) rows(table []float64, first, last, width, zero int) string {
	if table == nil || width == 0 {
		return ""
	}
	values := append(
		append(make([]float64, 0, (last-first+zero)*width), table[first*width:last*width]...),
		make([]float64, zero*width)...)
	return b.constant([]int{last - first + zero, width}, values...)
}

// part adds what some columns contribute to the power sums and the linear term. take selects from a table what belongs
// to each event; reduce, if not nil, adds it up over the columns of one event.
func (b *builder) part(take func(table string) string, basis, linear string, reduce func(string) string) {
	if reduce == nil {
		reduce = func(value string) string { return value }
	}
	if basis != "" {
		a := take(basis)
		power := a
		for t := range b.powers {
			if t > 0 && b.c.Kernel == format.Homogeneous {
				break // only Σ a is needed
			}
			if t > 0 {
				power = b.mul(power, a)
			}
			b.powers[t] = append(b.powers[t], reduce(power))
		}
	}
	if linear != "" {
		b.linear = append(b.linear, reduce(take(linear)))
	}
}

// namedFields adds the categorical and multi fields. Their tables have two rows of zeros at the end: for names outside
// the vocabulary and for no name. It returns the inputs of the categorical ones by name.
func (b *builder) namedFields() (inputs map[string]string) {
	s, total := &b.c.Schema, 0
	for _, names := range b.c.Vocabulary {
		total += len(names)
	}
	basis, linear := b.rows(b.c.Basis, 0, total, b.c.NumBasis, 2), b.rows(b.c.Linear, 0, total, b.c.NumOutputs, 2)
	unseen, missing, first := int64(total), int64(total)+1, int64(0)
	inputs = make(map[string]string)
	for f, names := range b.c.Vocabulary {
		if c := f - len(s.Categorical); c >= 0 && c < len(s.Cross) {
			if len(names) > 0 {
				ids := b.crossed(s.Cross[c], inputs, names, first, unseen)
				b.part(func(table string) string { return b.node("Gather", []string{table, ids}) }, basis, linear, nil)
			}
			first += int64(len(names))
			continue
		}
		keys, columns := []string{""}, []int64{missing}
		for i, name := range names {
			keys, columns = append(keys, name), append(columns, first+int64(i))
		}
		first += int64(len(names))
		encode := func(value string) string {
			ids := b.fresh()
			b.add(mlDomain, "LabelEncoder", ids, []string{value}, stringsAttribute("keys_strings", keys),
				intsAttribute("values_int64s", columns), intAttribute("default_int64", unseen))
			return ids
		}
		if f < len(s.Categorical) {
			inputs[s.Categorical[f]] = b.input(s.Categorical[f], stringType, "n")
			ids := encode(inputs[s.Categorical[f]])
			if !s.IsOptional(s.Categorical[f]) {
				lacks := b.node("Equal", []string{ids, b.whole(missing)})
				b.absent = append(
					b.absent,
					b.node("Unsqueeze",
						[]string{b.node("Where", []string{lacks, b.scalar(math.NaN()), b.scalar(0)}), b.axes(1)}),
				)
			}
			b.part(func(table string) string { return b.node("Gather", []string{table, ids}) }, basis, linear, nil)
			continue
		}
		list := f - len(s.Categorical) - len(s.Cross)
		name := s.Multi[list]
		ids := encode(b.input(name, stringType, "n", "l_"+name))
		weight := b.node("Unsqueeze", []string{b.multiValue(list, ids, missing, unseen), b.axes(2)})
		b.part(
			func(table string) string { return b.mul(b.node("Gather", []string{table, ids}), weight) },
			basis,
			linear,
			func(value string) string {
				return b.node("ReduceSum", []string{value, b.axes(1)}, intAttribute("keepdims", 0))
			},
		)
	}
	return inputs
}

// multiValue returns the value of each name of a list, [n, l]: format.MultiValue at the first of equal names, else
// 0. Names that the version does not know cannot be distinguished here: each counts in the length of the list.
func (b *builder) multiValue(list int, ids string, missing, unseen int64) string {
	size := b.node("Squeeze",
		[]string{b.node("Shape", []string{ids}, intAttribute("start", 1), intAttribute("end", 2)), b.axes(0)})
	place := b.node("Range", []string{b.whole(0), size, b.whole(1)})
	earlier := b.node("Less",
		[]string{b.node("Unsqueeze", []string{place, b.axes(0)}), b.node("Unsqueeze", []string{place, b.axes(1)})})
	same := b.node("Equal",
		[]string{b.node("Unsqueeze", []string{ids, b.axes(1)}), b.node("Unsqueeze", []string{ids, b.axes(2)})})
	repeats := b.node("ReduceSum", []string{b.cast(b.node("And", []string{same, earlier}), int64Type), b.axes(2)},
		intAttribute("keepdims", 0))
	first := b.node("Equal", []string{repeats, b.whole(0)})
	present := b.node("Not", []string{b.node("Equal", []string{ids, b.whole(missing)})})
	counted, weights := present, b.c.Schema.MultiWeights
	if len(weights) > 0 {
		counted = b.node("And",
			[]string{present, b.node("Or", []string{first, b.node("Equal", []string{ids, b.whole(unseen)})})})
	}
	length := b.node("ReduceSum", []string{b.cast(counted, b.real), b.axes(1)}, intAttribute("keepdims", 1))
	divisor := b.node("Max", []string{length, b.scalar(1)})
	if len(weights) > 0 && weights[list] == format.WeightSqrt {
		divisor = b.node("Sqrt", []string{divisor})
	}
	return b.mul(b.node("Div", []string{b.cast(present, b.real), divisor}), b.cast(first, b.real))
}

// numericFields adds the numeric fields: scaled in double, whatever the type of the tensors, since centers may be
// large. It returns the numbers as they come, and whether each is finite, both [n, p].
func (b *builder) numericFields() (value, finite string) {
	s := &b.c.Schema
	p := len(s.Numeric)
	var columns []string
	center, scale, limit, opposite := make([]float64, p), make([]float64, p), make([]float64, p), make([]float64, p)
	for f := range s.Numeric {
		center[f], scale[f], limit[f] = s.Numeric[f].Center, s.Numeric[f].Scale, cmp.Or(s.Numeric[f].Clip,
			math.MaxFloat64)
		opposite[f] = -limit[f]
		columns = append(columns,
			b.node("Unsqueeze", []string{b.input(s.Numeric[f].Name, float64Type, "n"), b.axes(1)}))
	}
	value = b.node("Concat", columns, intAttribute("axis", 1))
	zero := b.constantOf(float64Type, nil, []float64{0})
	finite = b.node(
		"Equal",
		[]string{b.node("Sub", []string{value, value}), zero},
	) // NaN and ±Inf minus themselves are NaN
	x := b.node(
		"Div",
		[]string{
			b.node("Sub", []string{value, b.constantOf(float64Type, []int{1, p}, center)}),
			b.constantOf(float64Type, []int{1, p}, scale),
		},
	)
	x = b.node(
		"Min",
		[]string{
			b.node("Max", []string{x, b.constantOf(float64Type, []int{1, p}, opposite)}),
			b.constantOf(float64Type, []int{1, p}, limit),
		},
	)
	x = b.node("Where", []string{finite, x, zero})
	b.requireNumbers(finite)
	b.featureMap(value, finite)
	if b.real != float64Type {
		x = b.cast(x, b.real)
	}
	first := b.c.NumFeatures - p
	if s.Augment {
		first--
	}
	basis, linear := b.rows(b.c.Basis, first, first+p, b.c.NumBasis, 0), b.rows(b.c.Linear, first, first+p,
		b.c.NumOutputs, 0)
	power, table := x, basis
	for t := 0; basis != "" && t < b.degree && (t == 0 || b.c.Kernel == format.ANOVA); t++ {
		if t > 0 {
			power, table = b.mul(power, x), b.mul(table, basis)
		}
		b.powers[t] = append(b.powers[t], b.node("MatMul", []string{power, table}))
	}
	if linear != "" {
		b.linear = append(b.linear, b.node("MatMul", []string{x, linear}))
	}
	return value, finite
}

// requireNumbers makes outputs NaN where a number is not finite, [n, p], that is not optional.
func (b *builder) requireNumbers(finite string) {
	s, needed := &b.c.Schema, false
	lacks := make([]float64, len(s.Numeric)) // what a missing number adds
	for f := range s.Numeric {
		if !s.IsOptional(s.Numeric[f].Name) {
			lacks[f], needed = math.NaN(), true
		}
	}
	if needed {
		each := b.node("Where", []string{finite, b.scalar(0), b.constant([]int{1, len(lacks)}, lacks...)})
		b.absent = append(b.absent, b.node("ReduceSum", []string{each, b.axes(1)}, intAttribute("keepdims", 1)))
	}
}

// kernel returns K(h_r, x), [n, k], times scale: a power of the sum, or, since the ANOVA kernel of degree m is the
// elementary symmetric polynomial e_m of the products h_j x_j, Newton's identities for E_m = m! e_m,
//
//	E_m = Σ_i (−1)^(i−1) (m−1)!/(m−i)! E_(m−i) p_i
//
// from the power sums p_i. The caller divides by scale: onnxruntime merges a multiplication with the product that
// follows it and rounds its factor to float32, also between tensors in float64.
func (b *builder) kernel() (value string, scale float64) {
	p := make([]string, b.degree)
	for t := range p {
		if len(b.powers[t]) > 0 {
			p[t] = b.sum(b.powers[t]...)
		}
	}
	if b.c.Kernel == format.Homogeneous {
		value = p[0]
		for range b.degree - 1 {
			value = b.mul(value, p[0])
		}
		return value, 1
	}
	e, factorial := []string{""}, 1 // E_0 = 1 is never multiplied with
	for m := 1; m <= b.degree; m++ {
		var out string
		for i, factor := 1, 1; i <= m; i++ {
			term := p[i-1]
			if m > i {
				term = b.mul(e[m-i], p[i-1])
			}
			if factor > 1 {
				term = b.mul(term, b.scalar(float64(factor)))
			}
			switch {
			case i == 1:
				out = term
			case i%2 == 0:
				out = b.node("Sub", []string{out, term})
			default:
				out = b.node("Add", []string{out, term})
			}
			factor *= m - i
		}
		e, factorial = append(e, out), factorial*m
	}
	return e[b.degree], float64(factorial)
}
