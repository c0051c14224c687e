package task

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/refitd/refitd/daemon/cycle/encode"
)

// TestWeightsCountAsCopies: a row of weight 2 counts as two rows in the calibration of margins and in the link of
// levels.
func TestWeightsCountAsCopies(t *testing.T) {
	twice := func(list []float64, width int) []float64 {
		return append(slices.Clone(list), list[:len(list)/2/width*width]...)
	}
	weights := slices.Repeat([]float64{1}, 400)
	for i := range 200 {
		weights[i] = 2
	}
	near := func(what string, got, want []float64) {
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-6*(1+math.Abs(want[i])) {
				t.Errorf("%s: %v with weights, %v with copies", what, got, want)
				return
			}
		}
	}
	for _, k := range []int{1, 4} {
		rows, model := marginOutputs(400, k)
		var outputs []float64
		for i := range rows.X.NumRows() {
			index, value := rows.X.Row(i)
			out := make([]float64, k)
			model.Predict(out, nil, index, value)
			outputs = append(outputs, out...)
		}
		run := func(outputs, targets, weights []float64) []float64 {
			f := &calibrationFit{
				outputs: outputs,
				targets: targets,
				weights: weights,
				k:       k,
				shifts:  k > 1,
				chances: make([]float64, k),
			}
			c := f.run()
			return append([]float64{c.Factor}, c.shift...)
		}
		near(fmt.Sprint(k, " outputs"), run(outputs, rows.Targets, weights),
			run(twice(outputs, k), twice(rows.Targets, k), nil))
	}
	numbers, targets := make([]float64, 400), make([]float64, 0, 400*4)
	for i := range numbers {
		numbers[i] = 1 + float64(i*37%400)/100
		for c := range 4 {
			targets = append(targets, math.Copysign(1, float64(c)+1.5-numbers[i]+float64(i%3-1)))
		}
	}
	start := encode.NewLevelLink(4, 1)
	a, b := start.Fit(numbers, targets, weights), start.Fit(twice(numbers, 1), twice(targets, 4), nil)
	near("link", append(a.Threshold, a.Slope), append(b.Threshold, b.Slope))
}
