package web

import (
	"math"
	"net/http"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format"
)

// TestTriplesAreExplained: over HTTP the terms of a kernel of degree 3 name three features, add up to the outputs and
// are within what the request was held for.
func TestTriplesAreExplained(t *testing.T) {
	b := newBench(t)
	for _, kernel := range []string{format.ANOVA, format.Homogeneous} {
		c := contents(format.Regression, 7)
		c.Kernel, c.Degree = kernel, 3
		b.publish(t, "prices", c)
		var got struct {
			Outputs []float64
			Terms   []struct {
				Features     []string
				Contribution []float64
			}
		}
		b.want(http.StatusOK, &got, "POST", "/v1/models/prices/aliases/latest/explain",
			map[string]any{"event": ratingEvent("u1", "i2", 55, "a")})
		sum, triples, named := 0.0, 0, false
		for _, term := range got.Terms {
			sum += term.Contribution[0]
			if len(term.Features) == 3 {
				triples++
				named = named || slices.Equal(term.Features, []string{"user=u1", "item=i2", "tags=a"})
			}
		}
		// of four features, without and with repetition
		want := map[string]int{format.ANOVA: 4, format.Homogeneous: 20}[kernel]
		if triples != want || !named || math.Abs(sum-got.Outputs[0]) > 1e-9*(1+math.Abs(sum)) {
			t.Errorf("%s: %d triples, want %d; terms add up to %g, the output is %v: %+v", kernel, triples, want, sum,
				got.Outputs, got.Terms)
		}
	}
	numbers := make([]float64, 500)
	in := snapshot.Input{Numeric: numbers}
	pairs := explanationBytes(&in, &snapshot.Manifest{Degree: 2, NumBasis: 1, NumOutputs: 1})
	triples := explanationBytes(&in, &snapshot.Manifest{Degree: 3, NumBasis: 1, NumOutputs: 1})
	if linear := explanationBytes(&in, &snapshot.Manifest{Degree: 3, NumOutputs: 1}); linear != pairs {
		t.Errorf("without basis vectors %d bytes, want %d", linear, pairs)
	}
	if most := int64(121_485); triples < most*(6*request.NameBytes+request.NumberBytes) {
		t.Errorf("%d bytes for %d triples of three names", triples, most)
	}
}
