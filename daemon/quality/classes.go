package quality

import (
	"math"

	"github.com/refitd/refitd/daemon/report"
)

// Classes counts predicted against true classes.
type Classes struct {
	Right     []int64 // events of the class that were predicted as it
	Predicted []int64 // events that were predicted as the class
	Actual    []int64 // events of the class
}

// NewClasses returns counts of m classes, all 0.
func NewClasses(m int) *Classes {
	return &Classes{make([]int64, m), make([]int64, m), make([]int64, m)}
}

// Add adds an event, or one label of an event with several: either class may be -1 for none.
func (c *Classes) Add(predicted, actual int) {
	if predicted >= 0 {
		c.Predicted[predicted]++
		if predicted == actual {
			c.Right[actual]++
		}
	}
	if actual >= 0 {
		c.Actual[actual]++
	}
}

// All returns the three counts.
func (c *Classes) All() [3][]int64 { return [3][]int64{c.Right, c.Predicted, c.Actual} }

// MacroF1 returns the mean over classes of 2·right/(predicted + actual), NaN without any. Classes that neither came nor
// were predicted are left out.
func (c *Classes) MacroF1() float64 {
	total, n := sum{}, 0
	for i, right := range c.Right {
		if both := c.Predicted[i] + c.Actual[i]; both > 0 {
			total.add(2 * float64(right) / float64(both))
			n++
		}
	}
	return total.value() / float64(n)
}

// MaxRecalls is the number of classes up to which Recalls returns the recall of each.
const MaxRecalls = 256

// Recalls returns the share of each class's events that were predicted as it, without those of which none came; nil for
// more classes than MaxRecalls. names are those of the classes.
func (c *Classes) Recalls(names []string) map[string]report.Number {
	if len(names) > MaxRecalls {
		return nil
	}
	var recalls map[string]report.Number
	for i, name := range names {
		if c.Actual[i] == 0 {
			continue
		}
		if recalls == nil {
			recalls = make(map[string]report.Number, len(names))
		}
		recalls[name] = report.Number(float64(c.Right[i]) / float64(c.Actual[i]))
	}
	return recalls
}

// AddTo stores macro F1 and the recalls in m, unless nothing was counted.
func (c *Classes) AddTo(m *report.Metrics, names []string) {
	m.MacroF1, m.RecallPerClass = report.Known(c.MacroF1()), c.Recalls(names)
}

// Kappa returns Cohen's κ with the accuracy of a reference in place of chance: how much of the reference's errors is
// avoided. NaN where the reference makes none.
func Kappa(accuracy, reference float64) float64 {
	if reference >= 1 {
		return math.NaN()
	}
	return (accuracy - reference) / (1 - reference)
}
