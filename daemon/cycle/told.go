package cycle

import (
	"encoding/json"
	"fmt"
	"slices"
)

// losses is what a process tells of the losses on its events, for the one that publishes what all have learned: Tell and Hear. All of it are sums, which add
// up over processes.
type losses struct {
	Sums    json.RawMessage        `json:"sums"` // progressiveSums
	WindowN int                    `json:"window_n"`
	Window  [numRoles]tally        `json:"window"`
	Slices  [numSlices][told]tally `json:"slices"`
	Lag     lagSums                `json:"lag"`
	Forms   []formSums             `json:"forms"` // of pairs that were compared
}

// lagSums are those of a lag.
type lagSums struct {
	N       float64 `json:"n"`
	Sum     float64 `json:"sum"`
	Squares float64 `json:"squares"`

	Blocks       float64 `json:"blocks"`
	BlockSum     float64 `json:"block_sum"`
	BlockSquares float64 `json:"block_squares"`
}

// formSums are those of a pair of forms in a race, by name: numbers of forms differ between builds.
type formSums struct {
	Form    string  `json:"form"`
	Against string  `json:"against"` // an earlier one of toldForms
	Lag     lagSums `json:"lag"`
}

// toldForms are the names of forms for other processes. They stay when forms come and go.
var toldForms = [numForms]string{formFoldIn: "fold_in", formNumbers: "numbers", formBefore: "before", formNewton: "newton", formGoing: "newton_going",
	formNames: "names", formMixed: "mixed", formBlend: "blend"}

// pair returns the forms that sums are of; ok is false of a build that has others.
func (f *formSums) pair() (a, b int, ok bool) {
	a, b = slices.Index(toldForms[:], f.Form), slices.Index(toldForms[:], f.Against)
	return a, b, b >= 0 && a > b
}

// Unheard is what a cycle has left out of what other processes have written, because they are of another build or configuration.
type Unheard struct {
	Events int64 // from which baselines and learners on names would have learned
	Losses int64 // of pairs of forms
}

// TakeUnheard returns what was left out since it was called last.
func (c *Cycle) TakeUnheard() (u Unheard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, c.unheard = c.unheard, Unheard{}
	return u
}

func (l *lag) told() lagSums {
	return lagSums{l.n, l.sum, l.squares, l.blocks.n, l.blocks.sum, l.blocks.squares}
}

func (l *lag) hear(s *lagSums) {
	l.n, l.sum, l.squares = l.n+s.N, l.sum+s.Sum, l.squares+s.Squares
	b := &l.blocks
	b.n, b.sum, b.squares = b.n+s.Blocks, b.sum+s.BlockSum, b.squares+s.BlockSquares
}

// Tell returns what Hear of another process takes up of the losses on the events observed by now.
func (c *Cycle) Tell() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sums, err := c.progressive.MarshalBinary()
	if err != nil {
		return nil, err
	}
	out := losses{Sums: sums, WindowN: c.progressive.filled, Window: c.progressive.window(), Lag: c.lag.told()}
	s := c.progressive.windowStretch()
	for k := range s.slices {
		for r := range s.slices[k] {
			out.Slices[k][r] = s.slices[k][r].tally
		}
	}
	for a := range numForms {
		for b := range a {
			if l := &c.race.pairs[a][b]; l.n > 0 {
				out.Forms = append(out.Forms, formSums{toldForms[a], toldForms[b], l.told()})
			}
		}
	}
	return json.Marshal(&out)
}

// Hear takes up what a process told of the losses on its events, in place of what it told before: Progressive then is of the events of all of them, and what
// updates are made of, and whether there are any, is decided by their losses. It is for a cycle that observes nothing itself.
func (c *Cycle) Hear(process int, text []byte) error {
	var l losses
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("cycle: losses of process %d: %w", process, err)
	}
	own := newProgressive(c.target, 1, false)
	if err := own.UnmarshalBinary(l.Sums); err != nil {
		return fmt.Errorf("cycle: losses of process %d: %w", process, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Lock()
	defer c.figures.Unlock()
	for len(c.heard) <= process {
		c.heard = append(c.heard, nil)
		c.heardOf = append(c.heardOf, nil)
	}
	if last := c.heardOf[process]; last != nil {
		c.hearAlarms(last.sums.Drift, own.sums.Drift)
	}
	c.heard[process], c.heardOf[process] = &l, own
	for i := range l.Forms {
		if _, _, ok := l.Forms[i].pair(); !ok {
			c.unheard.Losses++
		}
	}
	p := newProgressive(c.target, 1, len(c.entityFields) > 0)
	p.heard = newStretch(c.target)
	for r := range p.heard.roles {
		p.heard.roles[r].distribution = nil
	}
	c.lag = lag{scale: c.lag.scale}
	for f := range numForms {
		c.race.forget(f)
	}
	for i, l := range c.heard {
		if l != nil {
			p.hear(c.heardOf[i], l)
			c.lag.hear(&l.Lag)
			for i := range l.Forms {
				if a, b, ok := l.Forms[i].pair(); ok {
					c.race.pairs[a][b].hear(&l.Forms[i].Lag)
				}
			}
		}
	}
	c.progressive = p
	return nil
}

// Inherit goes on from the progressive sums that another process told, in whose place this one observes what comes next.
func (c *Cycle) Inherit(text []byte) error {
	var l losses
	err := json.Unmarshal(text, &l)
	if err == nil {
		err = c.Restore(l.Sums)
	}
	if err != nil {
		return fmt.Errorf("cycle: losses of the process before: %w", err)
	}
	return nil
}

// hearAlarms takes up the alarms of a process since it told of them last: DriftAlarms returns them. c.mu is held.
func (c *Cycle) hearAlarms(last, now []drifted) {
	for _, d := range now {
		if at := slices.IndexFunc(last, func(l drifted) bool { return l.Group == d.Group }); at >= 0 && last[at].Alarms >= d.Alarms {
			continue
		}
		if len(c.alarms) < maxAlarms {
			c.alarms = append(c.alarms, DriftAlarm{Event: d.Event, Group: d.Group})
		}
	}
}

// hear adds the sums of a process.
func (p *Progressive) hear(own *Progressive, l *losses) {
	s, of := &p.sums, &own.sums
	ago := func(sums *progressiveSums, at int) int64 { return sums.N - sums.Drift[at].Event }
	for i, d := range of.Drift {
		at := slices.IndexFunc(s.Drift, func(have drifted) bool { return have.Group == d.Group })
		if at < 0 {
			s.Drift = append(s.Drift, drifted{Group: d.Group, Event: s.N - ago(of, i)})
			at = len(s.Drift) - 1
		}
		have := &s.Drift[at]
		have.Alarms, have.Time = have.Alarms+d.Alarms, max(have.Time, d.Time)
		have.Event = s.N - min(ago(s, at), ago(of, i)) // each of its own events: of all there were more since
	}
	for at := range s.Drift {
		s.Drift[at].Event += of.N
	}
	s.N, s.NoModel = s.N+of.N, s.NoModel+of.NoModel
	for r := range s.All {
		s.All[r].merge(&of.All[r])
	}
	for r := range p.all {
		p.all[r].merge(own.all[r])
	}
	p.filled += l.WindowN
	for r := range l.Window {
		p.heard.roles[r].tally.merge(&l.Window[r])
	}
	for k := range l.Slices {
		for r := range l.Slices[k] {
			p.heard.slices[k][r].tally.merge(&l.Slices[k][r])
		}
	}
}
