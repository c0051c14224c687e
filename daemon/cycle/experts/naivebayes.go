package experts

import (
	"math"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/cycle/admission"
	"github.com/refitd/refitd/daemon/cycle/encode"
	"github.com/refitd/refitd/daemon/cycle/fitted"
	"github.com/refitd/refitd/daemon/cycle/rows"
	"github.com/refitd/refitd/snapshot/format"
	"gonum.org/v1/gonum/floats"
)

// evidenceSmoothings are how many events of no class in particular a name begins with. They run side by side: names
// that say little each need more. Chosen by hand, on words 1 and codes 1.
var evidenceSmoothings = []float64{4, 16, 64}

// Bounds and steps of naive Bayes. All are chosen by hand.
const (
	slopePrior   = 3.0     // curvature that the first slope counts for
	slopeFade    = 0.9995  // of the curvature, at every event
	slopeReach   = 1.0     // of one event's step, in units of the first slope
	biasStep     = 0.01    // of the outputs' bias
	evidenceSize = 1 << 20 // numbers of names in all
	nameMemory   = 5_000   // weight of the events of a name that count: what it says may change
	classMemory  = 50_000  // of all events, in the shares of the classes
)

// NaiveBayes adds up what each name of an event says of the classes: the logarithm of how much more frequent a class is
// among the events of the name than among all (Maron 1961; McCallum and Nigam 1998). Names are not independent, so the
// sum of each field has a slope, which is fitted to what came (as Platt 1999 has it for one sum). It says more than
// gradient steps where there are few events for many names (Ng and Jordan 2002). It belongs to one goroutine at a time.
type NaiveBayes struct {
	schema   *event.Schema
	outputsN int // m
	link     string
	judge    residuals
	Slots    *rows.Slots // of names; of bounded number

	prior   float64     // of a class: its share of one event
	events  float64     // that count in class
	class   []float64   // m, weights of events by class
	rows    [][]float64 // by slot: weight of its events, m by class, then m outputs for each smoothing
	Each    []evidence
	experts Weights

	names    []int32   // slots of the names of the event
	fieldOf  []int32   // of names
	RowValue []float64 // of names
	mixed    []float64 // m, the mean output by the weights
	residual []float64 // m
	shares   []float64 // m, of all events by class
	base     []float64 // m, shares as outputs
}

// evidence is the sum under one smoothing.
type evidence struct {
	smoothing float64
	slope     []float64 // by field; 0 before the first event that has it
	curvature []float64 // by field, fading
	bias      []float64 // m
	sum       []float64 // fields × m, of the event
	out       []float64 // m, of the event
}

// naiveBayesKind learns classes from names.
var naiveBayesKind = Kind{
	Name:    PartBayes,
	Doc:     "how much more frequent classes are among the events of each name, with a slope for each field; classes",
	Memory:  bayesMemory,
	Lasting: true,
	Applies: func(s *Setting) bool {
		return s.numNames() > 0 && s.Model.Train.FoldIn.Enabled && !s.Target.IsNumeric() && HasProbabilities(s.Target) &&
			bayesNames(s) >= leastNames
	},
	New: func(s *Setting, _ *fitted.Fitted, _ *Expert) *Expert {
		return NewExpert(PartBayes, s.Target, NewNaiveBayes(s.Schema, s.Target, bayesNames(s)))
	},
	Footprint: func(s *Setting) int64 {
		const number, list = 9, 24 // bytes, as the allocator rounds up
		names := bayesNames(s)
		return rows.SlotsFootprint(names, s.maxName()) + int64(names)*(number*int64(bayesRow(s.Target.Outputs()))+list)
	},
}

// bayesMemory is the part of memory.parts of naive Bayes.
const bayesMemory = "fold_in"

// leastNames is the fewest names that it is worth having for. Chosen by hand.
const leastNames = 100

// bayesNames returns how many names a model has room for. Those of many classes take more room.
func bayesNames(s *Setting) int { return min(s.maxRows(), evidenceSize/bayesRow(s.Target.Outputs())) }

// bayesRow returns how many numbers a name takes with m outputs.
func bayesRow(m int) int { return 1 + m + len(evidenceSmoothings)*m }

// NewNaiveBayes returns a learner of the classes of t that keeps at most limit names.
func NewNaiveBayes(schema *event.Schema, t *encode.Target, limit int) *NaiveBayes {
	m, fields := t.Outputs(), len(schema.Categorical)+len(schema.Multi)
	l := &NaiveBayes{schema: schema, outputsN: m, link: t.Link, judge: newResiduals(t), Slots: rows.NewSlots(limit),
		prior: t.ClassPrior(), events: 1, class: make([]float64, m), experts: NewWeights(len(evidenceSmoothings)),
		mixed: make([]float64, m), residual: make([]float64, m), shares: make([]float64, m),
		base: make([]float64, m)}
	for c := range l.class {
		l.class[c] = l.prior
	}
	for _, v := range evidenceSmoothings {
		l.Each = append(l.Each, evidence{smoothing: v, slope: make([]float64, fields), curvature: make([]float64, fields),
			bias: make([]float64, m), sum: make([]float64, fields*m), out: make([]float64, m)})
	}
	l.share()
	return l
}

func (l *NaiveBayes) Gather(ev *event.Event) {
	l.names, l.fieldOf, l.RowValue = l.names[:0], l.fieldOf[:0], l.RowValue[:0]
	eachName(l.schema, ev, func(field int, name string, value float64) {
		l.names, l.fieldOf = append(l.names, l.Slots.Find(field, name)), append(l.fieldOf, int32(field))
		l.RowValue = append(l.RowValue, value)
	})
	l.experts.Weigh()
	clear(l.mixed)
	for e := range l.Each {
		l.add(e)
		for c, v := range l.Each[e].out {
			l.mixed[c] += l.experts.Weights[e] * v
		}
	}
}

// add adds up what the names say under smoothing e. One output is the common case: loops are plain.
func (l *NaiveBayes) add(e int) {
	x, m := &l.Each[e], l.outputsN
	clear(x.sum)
	for i, at := range l.names {
		f, v := int(l.fieldOf[i]), l.RowValue[i]
		if x.slope[f] == 0 && x.curvature[f] == 0 { // so that the sum counts as it is
			x.slope[f] = 1 / v
		}
		if at >= 0 {
			for c, says := range l.evidenceOf(at, e) {
				x.sum[f*m+c] += v * says
			}
		}
	}
	for c := range x.out {
		x.out[c] = l.base[c] + x.bias[c]
		for f, slope := range x.slope {
			x.out[c] += slope * x.sum[f*m+c]
		}
	}
}

// share sets the shares of the classes among all events, and what they are as outputs.
func (l *NaiveBayes) share() {
	for c, v := range l.class {
		l.shares[c] = v / l.events
		l.base[c] = l.output(v, l.events-v)
	}
	l.centre(l.base)
}

// centre takes the mean out of outputs of exclusive classes, whose differences alone count. So outputs are no larger
// than they have to be: those of versions are bounded.
func (l *NaiveBayes) centre(outputs []float64) {
	if l.link == format.Softmax {
		floats.AddConst(-floats.Sum(outputs)/float64(len(outputs)), outputs)
	}
}

// output returns what a probability is as an output: its logarithm for exclusive classes, else its log odds. It is
// given as two weights, for a class and against it, so that neither is lost when the other is far larger.
func (l *NaiveBayes) output(has, lacks float64) float64 {
	if l.link == format.Softmax {
		return math.Log(has / (has + lacks))
	}
	return math.Log(has / lacks)
}

// evidenceOf is what smoothing e says of a name: m outputs.
func (l *NaiveBayes) evidenceOf(at int32, e int) []float64 {
	m := l.outputsN
	return l.rows[at][1+m+e*m : 1+2*m+e*m]
}

func (l *NaiveBayes) Outputs(dst []float64, ev *event.Event) {
	l.Gather(ev)
	copy(dst, l.mixed)
}

func (l *NaiveBayes) Learn(ev *event.Event, targets []float64, weight float64) {
	l.learnPart(ev, targets, weight, nil)
}

func (l *NaiveBayes) learnPart(ev *event.Event, targets []float64, weight float64, counts *rows.Counted) {
	weight = min(weight, heaviest)
	if counts.IsShared() {
		for e := range l.Each {
			x := &l.Each[e]
			loss, _ := l.judge.of(l.residual, x.out, targets)
			l.experts.Add(e, loss)
			l.fit(x, targets, weight)
		}
		l.events += weight
		for c, t := range targets {
			l.class[c] += weight * encode.One(t)
		}
		if n := l.events - 1; n > classMemory { // all but the event of no class in particular
			for c, v := range l.class {
				l.class[c] = l.prior + classMemory/n*(v-l.prior)
			}
			l.events = 1 + classMemory
		}
		l.share()
	}
	i := 0
	rows.EachPlace(ev, func(place, field int, name string) {
		if last := l.names[i]; !counts.Holds(place) {
			row := l.rows[l.claim(last, field, name)]
			row[0] += weight
			for c, t := range targets {
				row[1+c] += weight * encode.One(t)
			}
			if row[0] > nameMemory {
				floats.Scale(nameMemory/row[0], row[:1+l.outputsN])
			}
			l.weigh(row)
		}
		i++
	})
}

// fit moves the slopes and the bias of one sum by a step along its residual: Newton's for slopes, each with the
// curvature that all fields have together at most.
func (l *NaiveBayes) fit(x *evidence, targets []float64, weight float64) {
	m, fields := l.outputsN, float64(len(x.slope))
	for f := range x.slope {
		sum := x.sum[f*m : f*m+m]
		var slope, mean, square float64
		for c, r := range l.residual {
			p := encode.One(targets[c]) - r
			slope += r * sum[c]
			if l.link == format.Softmax {
				mean, square = mean+p*sum[c], square+p*sum[c]*sum[c]
			} else {
				square += p * (1 - p) * sum[c] * sum[c]
			}
		}
		curvature := weight * max(square-mean*mean, 0)
		if x.curvature[f] = slopeFade*x.curvature[f] + curvature; slope == 0 {
			continue
		}
		step := weight * slope / (fields*x.curvature[f] + slopePrior)
		reach := slopeReach * max(x.slope[f], 1)
		x.slope[f] = max(x.slope[f]+min(max(step, -reach), reach), 0)
	}
	floats.AddScaled(x.bias, biasStep*weight, l.residual)
}

// claim returns the slot of a name, cleared if it is new to it. last is where Gather saw it, or -1.
func (l *NaiveBayes) claim(last int32, field int, name string) int32 {
	at, fresh := l.Slots.Touch(last, field, name)
	for int(at) >= len(l.rows) {
		l.rows = append(l.rows, make([]float64, bayesRow(l.outputsN)))
	}
	if fresh {
		clear(l.rows[at])
	}
	return at
}

// weigh sets what the counts of a name say under each smoothing, by the shares of the classes as they are now.
func (l *NaiveBayes) weigh(row []float64) {
	m := l.outputsN
	for e := range l.Each {
		v := l.Each[e].smoothing
		says := row[1+m+e*m : 1+2*m+e*m]
		for c, share := range l.shares {
			says[c] = l.output(row[1+c]+v*share, row[0]-row[1+c]+v*(1-share)) - l.base[c]
		}
		l.centre(says)
	}
}

// Correct takes the old label out of the counts and puts the new one in. A name that has come anew since the event may
// lack it: counts stay between none and all.
func (l *NaiveBayes) Correct(of *admission.Correction) {
	weight := min(of.Is.Weight, heaviest)
	move := func(counts []float64, least, most float64) {
		for c, t := range of.To {
			v := counts[c] + weight*(encode.One(t)-encode.One(of.From[c]))
			counts[c] = min(max(v, least), most)
		}
	}
	if of.Counts.IsShared() {
		move(l.class, l.prior, l.events-(1-l.prior))
		l.share()
	}
	rows.EachPlace(of.Is, func(place, field int, name string) {
		if at := l.Slots.Find(field, name); at >= 0 && !of.Counts.Holds(place) {
			move(l.rows[at][1:1+l.outputsN], 0, l.rows[at][0])
			l.weigh(l.rows[at])
		}
	})
}
