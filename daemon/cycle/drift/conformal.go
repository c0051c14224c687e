package drift

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// lossTest watches the losses of predictions and alarms when they rise: a conformal test of exchangeability (Vovk,
// Petej, Nouretdinov, Ahlberg, Carlsson and Gammerman 2021, Retrain or not retrain) of the means of blocks of events.
// What counts of a block is its rank among those before it, so that the distribution of losses does not matter, and the
// largest losses of a block count as the next smaller ones, so that single ones do not decide. From every block on it
// bets that ranks are high: wealth ← (wealth + 1)·f(p) with f(p) = ε·p^(ε−1), a Shiryaev-Roberts e-detector (Shin,
// Ramdas and Rinaldo 2022), the mean over the ε. Falling losses, of a model that learns, never alarm.
//
// Blocks have to be exchangeable: where means of neighbours are correlated, blocks are joined in pairs and the test is
// repeated on what it has. There are lossLengths lengths at most, and a block is in two repetitions at most where the
// list is cut, so that in n events without a change the chance of an alarm is 2·lossLengths·n/(LossBlock·lossAlarm),
// n/10⁹. O(1) an event, and O(lossBlocks) a block.
type lossTest struct {
	losses []float64 // of the events since the last base block
	joined []float64 // base blocks since the last block
	length int       // base blocks of a block
	blocks []float64 // means, oldest first
	sorted []float64 // the same
	wealth [3]float64
}

// The constants of lossTest. Derived: lossAlarm, by the bound above, from AlarmRate. The others are chosen by hand.
const (
	LossBlock     = 100   // events of a base block
	lossCut       = 5     // largest losses of one that count as the next one
	lossLengths   = 8     // lengths of a block: 1, 2, 4, … base blocks
	lossBlocks    = 2048  // after so many the older half is left out
	LossReference = 100   // base blocks before the first bet
	lossAlarm     = 1.6e8 // mean wealth of an alarm
	lossLook      = 32    // blocks between two looks at how they are correlated
	lossLately    = 16    // last blocks that do not count there: a change is one, too
	lossApart     = 8     // blocks between those that neighbours are compared with
	lossAlike     = 0.1   // correlation of neighbours that is no matter
)

// lossBets are the ε of lossTest, chosen by hand.
var lossBets = [3]float64{0.2, 0.5, 0.8} // ε

// add takes up the loss of an event and reports an alarm, after which the test begins anew. It ignores what is no
// number.
func (l *lossTest) add(loss float64) bool {
	if math.IsNaN(loss) {
		return false
	}
	if l.losses = append(l.losses, loss); len(l.losses) < LossBlock {
		return false
	}
	slices.Sort(l.losses)
	for i := LossBlock - lossCut; i < LossBlock; i++ {
		l.losses[i] = l.losses[LossBlock-lossCut-1]
	}
	l.joined = append(l.joined, floats.Sum(l.losses)/float64(len(l.losses)))
	l.losses = l.losses[:0]
	if l.length = max(l.length, 1); len(l.joined) < l.length {
		return false
	}
	l.blocks = append(l.blocks, floats.Sum(l.joined)/float64(len(l.joined)))
	l.joined = l.joined[:0]
	alarm := l.bet(l.blocks[len(l.blocks)-1])
	if n := len(l.blocks); !alarm && n%lossLook == 0 && l.length < 1<<(lossLengths-1) && l.isCorrelated() {
		for i := range n / 2 {
			l.blocks[i] = (l.blocks[2*i] + l.blocks[2*i+1]) / 2
		}
		l.blocks, l.length = l.blocks[:n/2], 2*l.length
		alarm = l.repeat()
	}
	if !alarm && len(l.blocks) >= lossBlocks {
		l.blocks = append(l.blocks[:0], l.blocks[len(l.blocks)/2:]...)
		alarm = l.repeat()
	}
	if alarm {
		*l = lossTest{}
	}
	return alarm
}

// bet takes up the mean of a block and reports an alarm. Of ties it takes the middle rank, with which the bet is no
// better than fair.
func (l *lossTest) bet(mean float64) bool {
	from, _ := slices.BinarySearch(l.sorted, mean)
	to := from
	for to < len(l.sorted) && l.sorted[to] == mean {
		to++
	}
	l.sorted = slices.Insert(l.sorted, to, mean)
	n := len(l.sorted)
	if n*l.length <= LossReference {
		return false
	}
	p, sum := (float64(n-1-to)+float64(to-from+1)/2)/float64(n), 0.0
	for i, e := range lossBets {
		l.wealth[i] = (l.wealth[i] + 1) * e * math.Pow(p, e-1)
		sum += l.wealth[i]
	}
	return sum >= lossAlarm*float64(len(lossBets))
}

// repeat tests the blocks from the first one on, and reports an alarm.
func (l *lossTest) repeat() (alarm bool) {
	l.sorted, l.wealth = l.sorted[:0], [3]float64{}
	for _, mean := range l.blocks {
		alarm = l.bet(mean) || alarm
	}
	return alarm
}

// isCorrelated reports whether neighbouring blocks are more alike than those lossApart blocks apart, by more than
// chance and lossAlike have them. It compares medians of differences, which a level that rises or falls once does not
// move.
func (l *lossTest) isCorrelated() bool {
	blocks := l.blocks[:len(l.blocks)-lossLately]
	var near, far []float64
	for i := lossApart; i < len(blocks); i++ {
		near, far = append(near, math.Abs(blocks[i]-blocks[i-1])), append(far, math.Abs(blocks[i]-blocks[i-lossApart]))
	}
	slices.Sort(near)
	slices.Sort(far)
	ratio := near[len(near)/2] / far[len(far)/2] // NaN where all are alike
	return ratio*ratio < 1-lossAlike-4/math.Sqrt(float64(len(blocks)))
}
