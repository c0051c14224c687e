package export

import "strconv"

// mlDomain is the domain of LabelEncoder, which turns names into columns.
const mlDomain = "ai.onnx.ml"

// graph builds a GraphProto: node = 1, name = 2, initializer = 5, input = 11, output = 12. Values have the names "/1",
// "/2", …, which no field of a schema is likely to have; taken says which ones do.
type graph struct {
	real    elementType // of the model's tensors: double or float
	taken   map[string]bool
	nodes   message
	tensors message
	inputs  message
	outputs message
	values  int
}

func newGraph(real elementType) *graph { return &graph{real: real, taken: make(map[string]bool)} }

// input declares an input of the graph under the name of a field.
func (g *graph) input(name string, t elementType, dims ...any) string {
	g.inputs.bytes(11, valueInfo(name, t, dims...))
	return name
}

// result gives a value the name of an output, with underscores behind it if a field has that name.
func (g *graph) result(value, name string, t elementType, dims ...any) {
	for g.taken[name] {
		name += "_"
	}
	g.add("", "Identity", name, []string{value})
	g.outputs.bytes(12, valueInfo(name, t, dims...))
}

// node adds an operator of the default domain and returns its output.
func (g *graph) node(op string, inputs []string, attributes ...attribute) string {
	out := g.fresh()
	g.add("", op, out, inputs, attributes...)
	return out
}

// add appends a NodeProto: input = 1, output = 2, op_type = 4, attribute = 5, domain = 7.
func (g *graph) add(domain, op, output string, inputs []string, attributes ...attribute) {
	var m message
	for _, in := range inputs {
		m.text(1, in)
	}
	m.text(2, output)
	m.text(4, op)
	for _, a := range attributes {
		m.bytes(5, a)
	}
	if domain != "" {
		m.text(7, domain)
	}
	g.nodes.bytes(1, m)
}

func (g *graph) fresh() string {
	for {
		g.values++
		if name := "/" + strconv.Itoa(g.values); !g.taken[name] {
			return name
		}
	}
}

// constant adds a tensor of the model's type.
func (g *graph) constant(dims []int, values ...float64) string {
	return g.constantOf(g.real, dims, values)
}

func (g *graph) constantOf(t elementType, dims []int, values []float64) string {
	name := g.fresh()
	g.tensors.bytes(5, realTensor(name, t, dims, values))
	return name
}

// scalar adds a number of the model's type.
func (g *graph) scalar(v float64) string { return g.constant(nil, v) }

// axes adds a list of int64 numbers.
func (g *graph) axes(values ...int64) string {
	name := g.fresh()
	g.tensors.bytes(5, intTensor(name, []int{len(values)}, values))
	return name
}

// whole adds one int64 number.
func (g *graph) whole(v int64) string {
	name := g.fresh()
	g.tensors.bytes(5, intTensor(name, nil, []int64{v}))
	return name
}

// names adds a list of strings.
func (g *graph) names(values []string) string {
	name := g.fresh()
	g.tensors.bytes(5, stringTensor(name, values))
	return name
}

func (g *graph) cast(value string, t elementType) string {
	return g.node("Cast", []string{value}, intAttribute("to", int64(t)))
}

// sum adds values with broadcasting.
func (g *graph) sum(values ...string) string {
	if len(values) == 1 {
		return values[0]
	}
	return g.node("Sum", values)
}

func (g *graph) mul(a, b string) string { return g.node("Mul", []string{a, b}) }

// encode returns the GraphProto.
func (g *graph) encode(name string) message {
	m := append(message(nil), g.nodes...)
	m.text(2, name)
	m = append(m, g.tensors...)
	m = append(m, g.inputs...)
	return append(m, g.outputs...)
}
