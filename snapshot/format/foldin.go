package format

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// The likelihoods by which events are folded in, each of one link or two.
const (
	GaussianLikelihood    = "gaussian"    // of identity: a number with a normal error
	LogisticLikelihood    = "logistic"    // of logistic and ordinal: each output by a quadratic, see logisticQuadratic
	MultinomialLikelihood = "multinomial" // of softmax
)

// FoldIn is what a version says about rows of entities that are made from their own events where the model is used: see
// Model.Fold. The row of an entity has linear weights u_1 … u_M and coordinates u_M+1 … u_M+K. In the model that is
//
//	Linear[j,c] = u_c, or u_1 for all outputs where they share it; Basis[j,v] = Signs[v] · Scale[v] · u_(M+1+Coordinates[v])
//
// Outputs are linear in such a row. Its prior is normal, around the row that the model has of the entity, else around
// 0.
type FoldIn struct {
	Likelihood string `json:"likelihood"` // gaussian, logistic or multinomial
	// Shared says that outputs differ by their bias alone: M is 1, else the number of outputs.
	Shared bool      `json:"shared"`
	Noise  []float64 `json:"noise,omitempty"` // of gaussian: precision of the errors of each of M outputs
	// lowest and highest number that a label counts as; nil for no limit
	LabelRange  []float64     `json:"label_range,omitempty"`
	Coordinates []int         `json:"coordinates"` // of each basis vector
	Scale       []float64     `json:"scale"`       // of each basis vector, positive
	Fields      []FoldInField `json:"fields"`      // categorical fields whose names can be folded in; Fold takes the first
}

// FoldInField is what FoldIn says of the names of one field.
type FoldInField struct {
	Name string `json:"name"`
	// of the prior: M linear weights, then K coordinates, or no more where the field has linear weights alone
	Precision []float64 `json:"precision"`
	Signs     []int     `json:"signs"` // of each basis vector: 1, -1, or 0 where a row of the field has nothing
	// Rates are the shares of its evidence that a row keeps at each of its events, one row each, mixed by recent loss;
	// Losses is what each has lost of late over all events of the field.
	Rates  []float64 `json:"rates"`
	Losses []float64 `json:"losses"`
}

// maxFoldInBytes bounds the fold-in in a manifest; a version of so many outputs or fields that it has no room for it
// has none.
const maxFoldInBytes = 24 << 10

const noRoom = "the manifest has no room for it: fewer outputs or basis vectors"

// maxRates bounds the rates of a field.
const maxRates = 8

// fitFoldIn leaves fields out, the last first, until the manifest has room for the rest. It returns nil and why if it
// has none for the first.
func fitFoldIn(f *FoldIn) (*FoldIn, string) {
	if f == nil {
		return nil, ""
	}
	fitted := *f
	for ; len(fitted.Fields) > 0; fitted.Fields = fitted.Fields[:len(fitted.Fields)-1] {
		if b, err := json.Marshal(&fitted); err == nil && len(b) <= maxFoldInBytes {
			return &fitted, ""
		}
	}
	return nil, noRoom
}

// NumLinear returns M for a model of numOutputs.
func (f *FoldIn) NumLinear(numOutputs int) int {
	if f.Shared {
		return 1
	}
	return numOutputs
}

// CanFoldIn reports whether events can be folded into outputs of a link by a likelihood: not into margins.
func CanFoldIn(likelihood, link string) bool {
	switch likelihood {
	case GaussianLikelihood:
		return link == Identity
	case LogisticLikelihood:
		return link == Logistic || link == OrdinalLink
	}
	return likelihood == MultinomialLikelihood && link == Softmax
}

// Validate says what is wrong with the fold-in of contents; nil is sound.
func (f *FoldIn) Validate(c *Contents) error {
	if f == nil {
		return nil
	}
	linear := f.NumLinear(c.NumOutputs)
	switch {
	case c.degree() != quadratic && c.NumBasis > 0:
		return fmt.Errorf("fold_in: a kernel of degree %d, rows are made for degree %d alone", c.degree(), quadratic)
	case !CanFoldIn(f.Likelihood, c.Link):
		return fmt.Errorf("fold_in: likelihood %q does not go with link %q", f.Likelihood, c.Link)
	case f.Likelihood == MultinomialLikelihood && f.Shared:
		return fmt.Errorf("fold_in: outputs of a multinomial likelihood cannot be shared")
	case f.Likelihood == GaussianLikelihood && (len(f.Noise) != linear || !positive(f.Noise)):
		return fmt.Errorf("fold_in: noise of %d outputs, want %d positive precisions", len(f.Noise), linear)
	case len(f.LabelRange) != 0 && (len(f.LabelRange) != 2 || !(f.LabelRange[0] <= f.LabelRange[1])):
		return fmt.Errorf("fold_in: label_range %v is no range", f.LabelRange)
	case len(f.Coordinates) != c.NumBasis || len(f.Scale) != c.NumBasis || !positive(f.Scale):
		return fmt.Errorf(
			"fold_in: %d coordinates and %d scales for %d basis vectors, want one for each, scales positive",
			len(f.Coordinates), len(f.Scale), c.NumBasis)
	case len(f.Fields) == 0:
		return fmt.Errorf("fold_in: no fields")
	}
	if f.Shared {
		for v := range c.NumBasis {
			for _, w := range c.Weights[v*c.NumOutputs : (v+1)*c.NumOutputs] {
				if w != c.Weights[v*c.NumOutputs] {
					return fmt.Errorf("fold_in: outputs are said to be shared, and weights of basis vector %d differ",
						v)
				}
			}
		}
	}
	var names []string
	for i := range f.Fields {
		if err := f.Fields[i].validate(f, c, linear); err != nil {
			return err
		}
		names = append(names, f.Fields[i].Name)
	}
	return distinct("fold_in fields", names)
}

// cancels is how much of its terms the sum of squares of a row may leave: what rounding to F32 does.
const cancels = 1e-5

func (d *FoldInField) validate(f *FoldIn, c *Contents, linear int) error {
	coordinates := len(d.Precision) - linear
	switch {
	case !slices.Contains(c.Schema.Categorical, d.Name):
		return fmt.Errorf("fold_in: %q is not a categorical field of the schema", d.Name)
	case coordinates < 0 || !positive(d.Precision):
		return fmt.Errorf("fold_in: field %q has %d precisions, want at least %d, all positive", d.Name,
			len(d.Precision), linear)
	case len(d.Signs) != c.NumBasis:
		return fmt.Errorf("fold_in: field %q has %d signs for %d basis vectors", d.Name, len(d.Signs), c.NumBasis)
	case len(d.Rates) == 0 || len(d.Rates) > maxRates || !positive(d.Rates) || slices.Max(d.Rates) > 1 || len(
		d.Losses) != len(d.Rates):
		return fmt.Errorf(
			"fold_in: field %q has rates %v and losses %v, want 1 to %d rates in (0, 1] and a loss for each", d.Name,
			d.Rates, d.Losses, maxRates)
	}
	for _, l := range d.Losses {
		if !IsFinite(l) {
			return fmt.Errorf("fold_in: field %q has a loss of %g", d.Name, l)
		}
	}
	for v, r := range f.Coordinates {
		if sign := d.Signs[v]; sign < -1 || sign > 1 || sign != 0 && (r < 0 || r >= coordinates) {
			return fmt.Errorf("fold_in: field %q has the sign %d in basis vector %d, of coordinate %d of %d", d.Name,
				sign, v, r, coordinates)
		}
	}
	if c.Kernel != Homogeneous {
		return nil
	}
	// The squares of the row's own coordinates have to cancel: outputs are linear in it.
	sum, size := make([]float64, coordinates*c.NumOutputs), make([]float64, coordinates*c.NumOutputs)
	for v, r := range f.Coordinates {
		if d.Signs[v] == 0 {
			continue
		}
		for o, w := range c.Weights[v*c.NumOutputs : (v+1)*c.NumOutputs] {
			w *= f.Scale[v] * f.Scale[v]
			sum[r*c.NumOutputs+o] += w
			size[r*c.NumOutputs+o] += math.Abs(w)
		}
	}
	for i, s := range sum {
		if math.Abs(s) > cancels*size[i] {
			return fmt.Errorf(
				"fold_in: outputs are not linear in rows of field %q: the squares of coordinate %d do not cancel",
				d.Name, i/c.NumOutputs)
		}
	}
	return nil
}

// positive reports whether all numbers are finite and above 0.
func positive(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v > 0) || math.IsInf(v, 1) })
}
