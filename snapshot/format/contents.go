package format

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// The kinds of kernels K(h, x), which have a degree (Blondel et al. 2016, section 3).
const (
	ANOVA       = "anova"       // Σ_{i<j} h_i x_i h_j x_j, of degree 3 Σ_{i<j<l} h_i x_i h_j x_j h_l x_l
	Homogeneous = "homogeneous" // ⟨h, x⟩², of degree 3 ⟨h, x⟩³
)

// The degrees of kernels: how many features a product has.
const (
	quadratic = 2
	Cubic     = 3
)

// The links: how outputs o become a prediction.
const (
	Identity    = "identity" // the outputs are the prediction
	Logistic    = "logistic" // σ(o_c), each output for itself
	Softmax     = "softmax"  // exp(o_c) / Σ exp(o)
	OrdinalLink = "ordinal"  // σ(o_c) = P(level ≤ c), c = 1..L−1 (McRank: Li et al. 2007)
)

// Limits of what is published and read; anything larger is refused before memory is taken for it.
const (
	maxOutputs       = 1 << 16
	maxColumns       = math.MaxInt32 // columns are int32 when scoring
	MaxModelBytes    = 256 << 20     // 1,000,000 features, k = 20, 4 outputs take 192 MB
	MaxNamesBytes    = 256 << 20
	MaxGoldenBytes   = 16 << 20
	MaxManifestBytes = 64 << 10 // a large cut has a separate file
	MaxHeaderBytes   = 1 << 10  // of the one header a shape has: some 400 bytes
)

// Contents is everything that a version is made of, except what Publish adds. The parameters are those of
//
//	o(x)_c = Σ_r Weights[r,c] K(h_r, x) + Σ_j Linear[j,c] x_j + Σ_j MapWeights[j,c] φ_j(x) + Bias[c]
//
// with d = NumFeatures columns, m = NumOutputs outputs, k = NumBasis basis vectors and the D columns φ of
// Schema.FeatureMap, plus what Trees add.
type Contents struct {
	Schema      Schema
	Kernel      string // anova or homogeneous
	Degree      int    // of the kernel, 2 or 3; 0 is 2
	Link        string // identity, logistic, softmax or ordinal
	NumFeatures int
	NumOutputs  int
	NumBasis    int
	Tensors     string     // type of the numbers as they are stored, F64 or F32; "" is F64
	Basis       []float64  // d×k, feature-major: Basis[j*k+r] is coordinate j of h_r
	Weights     []float64  // k×m, row-major
	Linear      []float64  // d×m, feature-major; nil for no linear term
	Bias        []float64  // m
	MapWeights  []float64  // D×m, of the columns of Schema.FeatureMap; nil without one
	Vocabulary  [][]string // names per field of Schema.Named, in column order
	// which names are chosen together, for lists; nil for none
	CoChoices *CoChoices
	Tables    []*Table // what is known of entities, which events need not say; nil for nothing
	Trees     *Trees   // rules that are added to the outputs; nil for none
	// how rows of entities are made from their events; nil for not at all. Part of the manifest, as far as it has room
	FoldIn   *FoldIn
	NoFoldIn string // why FoldIn is nil, for people
	Meta     Meta
	Golden   []Golden // at least one; a handful that covers seen, unseen and missing names is enough
}

// Golden is an event with the outputs that the trainer computed for it. Outputs nil takes those of the published model
// itself, which then shows that readers agree with the writer, but not that the writer agrees with the trainer.
type Golden struct {
	Input   Input
	Outputs []float64 // m
}

// CheckShape checks schema, kernel, link and the three sizes.
func (c *Contents) CheckShape() error {
	if err := c.Schema.validate(); err != nil {
		return err
	}
	if c.Tensors != "" && tensorBytes(c.Tensors) == 0 {
		return fmt.Errorf("tensors of type %q: F64 and F32 are known", c.Tensors)
	}
	if c.Kernel != ANOVA && c.Kernel != Homogeneous {
		return fmt.Errorf("kernel %q is not anova or homogeneous", c.Kernel)
	}
	if d := c.degree(); d != quadratic && d != Cubic {
		return fmt.Errorf("kernel of degree %d: this build has degrees %d and %d", d, quadratic, Cubic)
	}
	if d, m, k := c.NumFeatures, c.NumOutputs, c.NumBasis; d < 0 || d > maxColumns || m < 1 || m > maxOutputs ||
		k < 0 ||
		k > maxColumns {
		return fmt.Errorf("%d features, %d outputs, %d basis vectors: out of range", d, m, k)
	}
	return c.checkLink()
}

// degree returns that of the kernel.
func (c *Contents) degree() int { return cmp.Or(c.Degree, quadratic) }

// Validate checks everything but the golden events.
func (c *Contents) Validate() error {
	if err := c.CheckShape(); err != nil {
		return err
	}
	if err := c.CheckVocabulary(); err != nil {
		return err
	}
	if err := c.CheckParameters(); err != nil {
		return err
	}
	if err := c.CoChoices.Validate(c); err != nil {
		return err
	}
	if err := ValidateTables(c.Tables, &c.Schema); err != nil {
		return err
	}
	if err := c.Trees.Validate(c); err != nil {
		return err
	}
	if err := c.CheckSaid(); err != nil {
		return err
	}
	return c.FoldIn.Validate(c)
}

// CheckVocabulary checks that there are as many names as columns.
func (c *Contents) CheckVocabulary() error {
	if got, want := len(c.Vocabulary), c.Schema.FirstMulti()+len(c.Schema.Multi); got != want {
		return fmt.Errorf("vocabulary of %d fields for %d categorical, crossed and multi fields", got, want)
	}
	columns := c.Schema.NumExtra()
	for _, names := range c.Vocabulary {
		columns += len(names)
	}
	if columns != c.NumFeatures {
		return fmt.Errorf("%d features, but vocabulary and schema have %d columns", c.NumFeatures, columns)
	}
	return nil
}

// CheckParameters checks how many parameters there are, and that they are finite.
func (c *Contents) CheckParameters() error {
	d, m, k := c.NumFeatures, c.NumOutputs, c.NumBasis
	linear := d * m // below 2^47
	if c.Linear == nil {
		linear = 0
	}
	mapped := 0
	if fm := c.Schema.FeatureMap; fm != nil {
		if err := fm.Validate(); err != nil {
			return err
		}
		mapped = fm.NumColumns() * m
	}
	for _, t := range []struct {
		name   string
		values []float64
		want   int // below 2^62
	}{{"basis", c.Basis, d * k}, {"weights", c.Weights, k * m}, {"linear", c.Linear, linear}, {"bias", c.Bias, m},
		{"map_weights", c.MapWeights, mapped}} {
		if len(t.values) != t.want {
			return fmt.Errorf("%s has %d numbers, want %d (%d features, %d outputs, %d basis vectors)", t.name,
				len(t.values), t.want, d, m, k)
		}
		if i := notFinite(t.values); i >= 0 {
			return fmt.Errorf("%s[%d] is %g: parameters have to be finite", t.name, i, t.values[i])
		}
	}
	return nil
}

// CheckSaid checks that the model says something: where an output is the label, 0 says as much as 3.
func (c *Contents) CheckSaid() error {
	nonzero := func(v float64) bool { return v != 0 }
	for _, values := range [][]float64{c.Weights, c.Linear, c.Bias, c.MapWeights} {
		if slices.ContainsFunc(values, nonzero) {
			return nil
		}
	}
	if c.Link == Identity || c.Trees.SaysSomething() {
		return nil
	}
	return fmt.Errorf("all weights, linear terms and biases are zero: the model says nothing")
}

// notFinite returns the position of the first number that is not finite, or -1.
func notFinite(values []float64) int {
	var a, b, c, d float64 // 0 times what is not finite is NaN
	rest := values
	for ; len(rest) >= 4; rest = rest[4:] {
		a += 0 * rest[0]
		b += 0 * rest[1]
		c += 0 * rest[2]
		d += 0 * rest[3]
	}
	for _, v := range rest {
		a += 0 * v
	}
	if a+b+c+d == 0 {
		return -1
	}
	return slices.IndexFunc(values, func(v float64) bool { return !IsFinite(v) })
}

// checkLink checks that task, link and number of outputs belong together.
func (c *Contents) checkLink() error {
	s := &c.Schema
	want, ok := 1, c.Link == Identity
	switch s.Task {
	case Binary:
		ok = ok || c.Link == Logistic
	case Ordinal:
		if c.Link == OrdinalLink {
			want, ok = s.Levels-1, true
		}
	case Multiclass:
		want, ok = len(s.Classes), ok || c.Link == Logistic || c.Link == Softmax
	case Multilabel:
		want, ok = len(s.Classes), ok || c.Link == Logistic
	}
	if !ok {
		return fmt.Errorf("link %q does not go with task %s", c.Link, s.Task)
	}
	if c.NumOutputs != want {
		return fmt.Errorf("%d outputs, task %s with link %s has %d", c.NumOutputs, s.Task, c.Link, want)
	}
	return nil
}

// Limit clips outputs to a magnitude, as readers do with Manifest.OutputLimit. A limit that is not positive is none.
// NaN and infinities stay as they are:
// an event that has them is refused.
func Limit(outputs []float64, limit float64) {
	if !(limit > 0) {
		return
	}
	for o, v := range outputs {
		if math.Abs(v) > limit && !math.IsInf(v, 0) {
			outputs[o] = math.Copysign(limit, v)
		}
	}
}
