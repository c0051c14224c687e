package guess

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/dataset"
)

// Whole numbers may be quantities or names. Where neither their name nor how often they come back says it, both are
// tried on the first rows, in order: each row's label is predicted, before it is counted, by the labels so far of rows
// with the same number, and of rows with a number nearby. Of codes the number itself says more; of quantities those
// nearby do, as there are more of them.
const (
	trialClasses = 16  // of a label with more names; the others are one more
	trialParts   = 5   // into which a label of many numbers is cut, as many rows in each
	trialRows    = 200 // fewer show nothing
)

var (
	trialBins      = []int{1, 16, 64}      // of numbers nearby, as many rows in each; 1 is of labels alone
	trialStrengths = []float64{3, 30, 300} // rows that the overall frequencies of labels count as
)

// outcomes are the labels of the first rows, as classes: negative for a row without a label.
type outcomes struct {
	of      []int
	classes int
}

// outcomesOf makes classes of a label: of its values or, if those are many numbers, of their ranges.
func outcomesOf(c *dataset.Column) outcomes {
	head, numbers := c.Head(), c.HeadNumbers()
	classOf, classes := make([]int, len(numbers)), 0
	if cuts := cutsOf(head, numbers, trialParts); c.Numbers == c.Present && c.Distinct() > trialClasses {
		for i, v := range numbers {
			classOf[i] = part(cuts, v)
		}
		classes = len(cuts) + 1
	} else {
		for i := range classOf {
			classOf[i] = min(i, trialClasses)
		}
		classes = min(len(classOf), trialClasses+1)
	}
	o := outcomes{make([]int, len(head)), classes}
	for row, i := range head {
		if o.of[row] = -1; i >= 0 && !(c.Numbers == c.Present && math.IsNaN(numbers[i])) {
			o.of[row] = classOf[i]
		}
	}
	return o
}

// cutsOf returns at most parts-1 numbers that cut those of the rows into parts of about as many rows.
func cutsOf(head []int32, numbers []float64, parts int) (cuts []float64) {
	var all []float64
	for _, i := range head {
		if i >= 0 && !math.IsNaN(numbers[i]) {
			all = append(all, numbers[i])
		}
	}
	slices.Sort(all)
	for k := 1; k < parts && len(all) > 0; k++ {
		if v := all[k*len(all)/parts]; v > all[0] && (len(cuts) == 0 || v > cuts[len(cuts)-1]) {
			cuts = append(cuts, v)
		}
	}
	return cuts
}

// part returns the part of a number: that which begins with the last cut not above it.
func part(cuts []float64, v float64) int {
	at, found := slices.BinarySearch(cuts, v)
	if found {
		at++
	}
	return at
}

// trial is what came of both ways: mean log losses, and how many standard errors names do better by.
type trial struct {
	rows                   int
	names, numbers, labels float64 // labels: by the frequencies of labels alone
	z                      float64
}

// A difference of so many standard errors decides where nothing else does, and one of muchBetter against what a name
// of the column suggests: what is at stake is little where the two are close.
const (
	better     = 1
	muchBetter = 2.5
)

// forNames reports whether names do better by so many standard errors.
func (t *trial) forNames(by float64) bool {
	return t.rows >= trialRows && t.z >= by && t.names < t.labels
}

// forNumbers is forNames of numbers.
func (t *trial) forNumbers(by float64) bool {
	return t.rows >= trialRows && t.z <= -by && t.numbers < t.labels
}

// tried tries both ways for a column of whole numbers.
func (o *outcomes) tried(c *dataset.Column) trial {
	head, numbers := c.Head(), c.HeadNumbers()
	rows := min(len(head), len(o.of))
	var x, y []int
	for row := range rows {
		if i := head[row]; i >= 0 && o.of[row] >= 0 && !math.IsNaN(numbers[i]) {
			x, y = append(x, int(i)), append(y, o.of[row])
		}
	}
	t := trial{rows: len(x)}
	if t.rows < trialRows || o.classes < 2 {
		return t
	}
	_, byLabels := bestLosses(make([]int, len(x)), 1, y, o.classes)
	losses, byNames := bestLosses(x, len(numbers), y, o.classes)
	var nearby []float64
	byNumbers := math.Inf(1)
	for _, bins := range trialBins {
		cuts := cutsOf(head, numbers, bins)
		binned := make([]int, len(x))
		for row, i := range x {
			binned[row] = part(cuts, numbers[i])
		}
		if l, sum := bestLosses(binned, len(cuts)+1, y, o.classes); sum < byNumbers {
			nearby, byNumbers = l, sum
		}
	}
	var sum, squares float64
	for row, l := range losses {
		d := nearby[row] - l
		sum, squares = sum+d, squares+d*d
	}
	n := float64(t.rows)
	t.names, t.numbers, t.labels = byNames/n, byNumbers/n, byLabels/n
	t.z = sum / math.Sqrt(max(squares-sum*sum/n, math.SmallestNonzeroFloat64))
	return t
}

// bestLosses returns the log losses of rows, and their sum, when each is predicted by the labels so far in its cell,
// by the best of trialStrengths.
func bestLosses(cell []int, cells int, y []int, classes int) (best []float64, least float64) {
	least = math.Inf(1)
	for _, strength := range trialStrengths {
		count, rows, all := make([]float64, cells*classes), make([]float64, cells), make([]float64, classes)
		losses, sum := make([]float64, len(y)), 0.0
		for row, c := range cell {
			k := y[row]
			overall := (all[k] + 1) / float64(row+classes)
			p := (count[c*classes+k] + strength*overall) / (rows[c] + strength)
			losses[row] = -math.Log(p)
			sum += losses[row]
			count[c*classes+k]++
			rows[c]++
			all[k]++
		}
		if sum < least {
			best, least = losses, sum
		}
	}
	return best, cmp.Or(least, 0)
}

// What columns with classes are called, and what columns with grades are, whose whole numbers have an order.
var (
	ofClasses = strings.Fields(`
		class classes category species kind type digit letter topic genre cluster segment group`)
	ofGrades = strings.Fields(`
		rating ratings star stars score grade level rank points`)
)

// classesOfNumbers returns why whole numbers of a label are classes without an order, "" if they are not.
func (g *guess) classesOfNumbers(c *dataset.Column, columns []*dataset.Column) string {
	n, distinct := c.Present, c.Distinct()
	list := wordsOf(ownName(c))
	if n == 0 || c.Whole != n || c.Pointed > 0 || distinct > fewClasses || c.Min == 0 && c.Max == 1 || len(list) == 0 {
		return ""
	}
	last := list[len(list)-1]
	switch {
	case slices.Contains(ofGrades, last), nameOfQuantity(ownName(c)):
		return ""
	case slices.Contains(ofClasses, last):
		return fmt.Sprintf("%d different whole numbers, which by its name are classes", distinct)
	case c.Quoted == n:
		return fmt.Sprintf("%d different whole numbers that are text, as names are", distinct)
	case distinct > 2 && distinct <= fewNumbers && g.rows >= rowsPerName*distinct && g.isUnordered(c, columns):
		return fmt.Sprintf("%d different whole numbers without order: rows alike in others are no nearer in it",
			distinct)
	}
	return ""
}

// orderColumns bounds the columns by which isUnordered looks for an order.
const orderColumns = 50

// isUnordered reports whether the numbers of a label have no order: some column says much about the label, and of rows
// that are alike there, those with different labels have numbers as far apart as those of any rows.
func (g *guess) isUnordered(label *dataset.Column, columns []*dataset.Column) bool {
	head, numbers := label.Head(), label.HeadNumbers()
	sorted := slices.Sorted(slices.Values(numbers))
	rank := make([]float64, len(numbers))
	for i, v := range numbers {
		at, _ := slices.BinarySearch(sorted, v)
		rank[i] = float64(at)
	}
	said, looked := false, 0
	for _, c := range columns {
		if c == label || c.Lists+c.Nested > 0 || c.Distinct() < 2 || isTime(c, ownName(c)) {
			continue
		}
		if looked++; looked > orderColumns {
			break
		}
		of, cells := cellsOf(c)
		cell, y, ranks := make([]int, 0, len(head)), make([]int, 0, len(head)), make([]float64, 0, len(head))
		for row := range min(len(head), len(of)) {
			if head[row] >= 0 && of[row] >= 0 {
				cell, y, ranks = append(cell, of[row]), append(y, int(head[row])), append(ranks, rank[head[row]])
			}
		}
		if len(cell) < trialRows {
			continue
		}
		_, byLabels := bestLosses(make([]int, len(cell)), 1, y, len(numbers))
		if _, byCell := bestLosses(cell, cells, y, len(numbers)); byCell > saysMuch*byLabels {
			continue
		}
		said = true
		apart, everywhere := spread(cell, cells, ranks), spread(make([]int, len(cell)), 1, ranks)
		if apart < nearer*everywhere {
			return false
		}
	}
	return said
}

// A column says much about a label if it leaves less than saysMuch of its log loss. Labels have an order if those of
// rows that are alike are nearer than those of any rows by this factor.
const (
	saysMuch = 0.97
	nearer   = 0.9
)

// cellsOf puts the first rows into cells by a column: by its values or, if those are many numbers, by their ranges;
// negative for no value.
func cellsOf(c *dataset.Column) (of []int, cells int) {
	head, numbers := c.Head(), c.HeadNumbers()
	of = make([]int, len(head))
	var cuts []float64
	binned := c.Numbers == c.Present && c.Distinct() > trialClasses
	if cells = len(numbers); binned {
		cuts = cutsOf(head, numbers, trialClasses)
		cells = len(cuts) + 1
	}
	for row, i := range head {
		switch {
		case i < 0, binned && math.IsNaN(numbers[i]):
			of[row] = -1
		case binned:
			of[row] = part(cuts, numbers[i])
		default:
			of[row] = int(i)
		}
	}
	return of, cells
}

// spread returns how far apart, in the mean, the ranks of a row and of the one before in its cell are, where they
// differ.
func spread(cell []int, cells int, ranks []float64) float64 {
	before := make([]float64, cells)
	for i := range before {
		before[i] = -1
	}
	sum, n := 0.0, 0.0
	for row, c := range cell {
		if b := before[c]; b >= 0 && b != ranks[row] {
			sum, n = sum+math.Abs(ranks[row]-b), n+1
		}
		before[c] = ranks[row]
	}
	return sum / max(n, 1)
}
