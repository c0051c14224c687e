package formats

import (
	"time"

	"github.com/refitd/refitd/consumer/event/framing"
	"github.com/refitd/refitd/consumer/registry"
)

// What the tests of this room, which import the ingest above it, see of it.
var (
	Compilers  = compilers
	Difference = difference
	LimitsOf   = limitsOf
)

const (
	CompareEvery    = compareEvery
	DoubtEvery      = doubtEvery
	MaxSchemasBytes = maxSchemasBytes
	ProgramBytes    = programBytes
)

// Ask has schemas asked for at another registry.
func (s *Schemas) Ask(r *registry.Client) { s.registry = r }

// Age has the last comparison of a schema have been so much earlier.
func (s *Schemas) Age(id framing.ID, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[id]
	k.asked, s.looked = k.asked.Add(-by), time.Time{}
}
