package evaluate

import (
	"encoding/json"
	"fmt"
	"slices"
)

// storedFormat is that of the sums in the state. Format 1, which had none, kept predictors by their positions.
const storedFormat = 2

// storedSums are the progressive sums as the state has them. Predictors go by name, so that another build that has more
// of them, or other ones, reads those that it knows.
type storedSums struct {
	Format     int               `json:"format"`
	N          int64             `json:"n"`
	NoModel    int64             `json:"no_model"`
	Predictors []storedPredictor `json:"predictors,omitempty"`
	Reference  *reference        `json:"reference,omitempty"`
	Drift      []drifted         `json:"drift,omitempty"`

	// Of format 1, by position.
	All           []Tally  `json:"all,omitempty"`
	Distributions [][]byte `json:"distributions,omitempty"`
}

// storedPredictor is one that has predicted an event.
type storedPredictor struct {
	Name string `json:"name"`
	Tally
	Distribution []byte `json:"distribution,omitempty"`
}

// MarshalBinary returns the sums over all events, for the state.
func (p *Progressive) MarshalBinary() ([]byte, error) {
	s := storedSums{Format: storedFormat, N: p.Sums.N, NoModel: p.Sums.NoModel, Reference: p.Sums.Reference,
		Drift: p.Sums.Drift}
	for r, name := range RoleNames(p.target.IsNumeric()) {
		if p.Sums.All[r].N == 0 {
			continue
		}
		of := storedPredictor{Name: name, Tally: p.Sums.All[r]}
		if r < NumReported && p.All[r] != nil {
			of.Distribution = p.All[r].appendBinary(nil)
		}
		s.Predictors = append(s.Predictors, of)
	}
	return json.Marshal(s)
}

// UnmarshalBinary restores what MarshalBinary returned, in this build or another. Nothing at all is a fresh start, and
// so are sums of a later format. Unknown returns what was left out.
func (p *Progressive) UnmarshalBinary(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	var format struct{ Format int }
	if err := json.Unmarshal(b, &format); err != nil {
		return err
	}
	if format.Format > storedFormat {
		p.unknown = append(p.unknown, fmt.Sprintf("format %d", format.Format))
		return nil
	}
	s := storedSums{Reference: p.Sums.Reference}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if p.Sums.Reference == nil {
		s.Reference = nil
	} else if r := s.Reference; r == nil || len(r.Counts) != p.target.Outputs() {
		return fmt.Errorf("cycle: progressive sums that are not of %d outputs", p.target.Outputs())
	}
	if s.Format < storedFormat {
		s.byPosition(RoleNames(p.target.IsNumeric()))
	}
	sums := progressiveSums{N: s.N, NoModel: s.NoModel, Reference: s.Reference, Drift: s.Drift}
	if err := p.takePredictors(&sums, s.Predictors); err != nil {
		return err
	}
	p.Sums = sums
	return nil
}

// byPosition names the predictors of format 1.
func (s *storedSums) byPosition(names [NumRoles]string) {
	for r, t := range s.All {
		if t.N == 0 {
			continue
		}
		of := storedPredictor{Name: fmt.Sprintf("position %d", r), Tally: t}
		if r < len(names) {
			of.Name = names[r]
		}
		if r < len(s.Distributions) {
			of.Distribution = s.Distributions[r]
		}
		s.Predictors = append(s.Predictors, of)
	}
}

// takePredictors puts the predictors that were stored into sums.
func (p *Progressive) takePredictors(sums *progressiveSums, stored []storedPredictor) error {
	names := RoleNames(p.target.IsNumeric())
	for i := range stored {
		of := &stored[i]
		r := slices.Index(names[:], of.Name)
		if r < 0 || of.Name == "" {
			p.unknown = append(p.unknown, of.Name)
			continue
		}
		sums.All[r] = of.Tally
		if r >= NumReported || p.All[r] == nil {
			continue
		}
		if err := p.All[r].UnmarshalBinary(of.Distribution); err != nil {
			return err
		}
	}
	return nil
}

// Unknown returns what the sums that were restored have and this build does not know: names of predictors, or a later
// format. It is left out.
func (p *Progressive) Unknown() []string { return p.unknown }
