package train

import (
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/daemon/model/modeltest"
)

// TestWallClockIsSet (G7): what the schedule measures by are monotonic readings, which no setting of the wall clock
// moves.
func TestWallClockIsSet(t *testing.T) {
	s := &Trainer{settings: modeltest.Ratings()}
	s.begin()
	defer s.tick.Stop()
	if err := s.install(t.Context(), trained{}); err != nil { // a refit without a model has ended
		t.Fatal(err)
	}
	for name, at := range map[string]time.Time{"refit": s.schedule.RefitAt, "update": s.schedule.UpdateAt,
		"look": s.lookAt} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("the time of the last %s, %v, has no monotonic reading", name, at)
		}
	}
}
