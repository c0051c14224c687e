package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/crash"
	"github.com/refitd/refitd/daemon/ingest"
)

// A process that dies in refits again and again, as for want of memory, reads on without them. The wait before the next refit is short enough to
// cost little if it was no fault of the refit, and doubles with each death up to a day.
const (
	firstTrainingWait = 10 * time.Minute
	lastTrainingWait  = 24 * time.Hour
)

// openCrashes looks at how the last process ended, before the model's settings are replaced.
func (u *unit) openCrashes() (err error) {
	now := time.Now()
	if u.crashes, err = crash.Open(u.dir, u.store.Ledger(), &u.daemon.exclusive, now, u.log); err != nil {
		return ingest.StateError(err, u.dir)
	}
	last, err := os.ReadFile(filepath.Join(u.dir, config.ModelFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ingest.StateError(err, u.dir)
	}
	if !bytes.Equal(last, u.config.Stored()) {
		u.crashes.ForgetTraining() // another refit
	}
	n, at, tooOften := u.crashes.TrainingDeaths()
	if until := disabledUntil(n, at, now); tooOften && now.Before(until) {
		u.disabled.Store(&until)
		u.log.Warn("training disabled: the process died in its last refits; events are read and folded in meanwhile", "deaths", n, "until", until,
			"to_enable", "POST /-/refit, a reload, or a restart with other settings of the model")
	}
	return nil
}

// disabledUntil returns when training is tried again after n deaths, of which the last was noticed at a time that is not in the future, whatever
// the clock says.
func disabledUntil(n int, last, now time.Time) time.Time {
	wait := firstTrainingWait
	for ; n > 2 && wait < lastTrainingWait; n-- {
		wait *= 2
	}
	if last.After(now) {
		last = now
	}
	return last.Add(min(wait, lastTrainingWait))
}

// mayTrain reports whether refits are begun on schedule.
func (u *unit) mayTrain(now time.Time) bool {
	until := u.disabled.Load()
	if until != nil && !now.Before(*until) {
		u.enableTraining("the wait is over")
		until = nil
	}
	return until == nil
}

// enableTraining ends what openCrashes decided. The deaths are not forgotten before a refit ends.
func (u *unit) enableTraining(reason string) {
	if u.disabled.Swap(nil) != nil {
		u.log.Info("training enabled", "reason", reason)
	}
}

// trainingDisabled says why no refit is begun, or is empty.
func (u *unit) trainingDisabled() string {
	until := u.disabled.Load()
	if until == nil {
		return ""
	}
	n, _, _ := u.crashes.TrainingDeaths()
	return fmt.Sprintf("training disabled until %s: the process died %d times in a row during a refit; POST /-/refit, a reload, or a restart with other settings tries it now",
		until.UTC().Format(time.RFC3339), n)
}

// noteTraining notes that a refit runs until ended is called. A signal is not a death, however soon another one ends the process.
func (u *unit) noteTraining(ctx context.Context) (ended func()) {
	u.crashes.BeginTraining()
	stop := context.AfterFunc(ctx, u.crashes.EndTraining)
	return func() {
		stop()
		u.crashes.EndTraining()
		if ctx.Err() == nil {
			u.crashes.ForgetTraining()
			u.enableTraining("a refit has ended")
		}
	}
}
