package cycle

import "github.com/refitd/refitd/daemon/cycle/fitted"

// Adopt makes a version the champion that this cycle did not promote: an operator chose it, or another instance was
// faster. It is what the next challenger is compared with and continues from, and the fold-in starts again on it. Its
// baselines are those of the champion before.
func (c *Cycle) Adopt(ch *fitted.Fitted) {
	c.mu.Lock()
	if last := c.champion; last != nil {
		ch.Means = last.Means
		if !(ch.Lambda > 0) {
			ch.Lambda = last.Lambda
		}
	}
	c.mu.Unlock()
	c.Install(ch)
}

// Renumber puts a champion that differs from the one there is by its Version alone in the place of it. What was learned
// since stays.
func (s *common) Renumber(ch *fitted.Fitted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.champion = ch
}
