package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/snapshot/backoff"
)

// A process that dies in refits again and again, as for want of memory, reads on without them. The wait before the next
// refit is short enough to cost little if it was no fault of the refit, and doubles with each death up to a day.
const (
	firstTrainingWait = 10 * time.Minute
	lastTrainingWait  = 24 * time.Hour
)

// Pause keeps a model that died in refits from training for a while. It is safe for concurrent use.
type Pause struct {
	crashes *crash.Journal
	log     *slog.Logger
	until   atomic.Pointer[time.Time] // no refit is begun on schedule before; nil if they are
}

// NewPause looks at how the last process ended, before the settings in dir are replaced: with others it is another
// refit.
func NewPause(crashes *crash.Journal, dir string, m *config.Model, now time.Time, log *slog.Logger) (*Pause, error) {
	p := &Pause{crashes: crashes, log: log}
	last, err := os.ReadFile(filepath.Join(dir, config.ModelFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, ingest.StateError(err, dir)
	}
	if !bytes.Equal(last, m.Stored()) {
		crashes.ForgetTraining()
	}
	n, at, tooOften := crashes.TrainingDeaths()
	if until := disabledUntil(n, at, now); tooOften && now.Before(until) {
		p.hold(until)
		log.Warn("training disabled", "note", "the process died in its last refits; events are still read and folded in",
			"deaths", n, "until", until, "to_enable",
			"POST /-/refit, a reload, or a restart with other settings of the model")
	}
	return p, nil
}

// disabledUntil returns when training is tried again after n deaths, of which the last was noticed at a time that is
// not in the future, whatever the clock says.
func disabledUntil(n int, last, now time.Time) time.Time {
	if last.After(now) {
		last = now
	}
	return last.Add(backoff.Doubled(n-1, firstTrainingWait, lastTrainingWait))
}

// hold lets no refit begin on schedule before a time.
func (p *Pause) hold(until time.Time) { p.until.Store(&until) }

// over reports whether refits are begun on schedule.
func (p *Pause) over(now time.Time) bool {
	until := p.until.Load()
	if until != nil && !now.Before(*until) {
		p.end("the wait is over")
		until = nil
	}
	return until == nil
}

// end lets refits begin on schedule. The deaths are not forgotten before a refit ends.
func (p *Pause) end(reason string) {
	if p.until.Swap(nil) != nil {
		p.log.Info("training enabled", "reason", reason)
	}
}

// reason says why no refit is begun, or is empty.
func (p *Pause) reason() string {
	until := p.until.Load()
	if until == nil {
		return ""
	}
	n, _, _ := p.crashes.TrainingDeaths()
	return fmt.Sprintf("training disabled until %s: the process died %d times in a row during a refit; "+
		"POST /-/refit, a reload, or a restart with other settings tries it now", until.UTC().Format(time.RFC3339), n)
}

// begin notes that a refit runs until ended is called. A signal is not a death, however soon another one ends the
// process.
func (p *Pause) begin(ctx context.Context) (ended func()) {
	p.crashes.BeginTraining()
	stop := context.AfterFunc(ctx, p.crashes.EndTraining)
	return func() {
		stop()
		p.crashes.EndTraining()
		if ctx.Err() == nil {
			p.crashes.ForgetTraining()
			p.end("a refit has ended")
		}
	}
}
