package backtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/cycle"
	"github.com/refitd/refitd/daemon/report"
)

// leaveOut has the model leave out the parts of --without. A name that is no part is refused.
func (o *Options) leaveOut() error {
	all := cycle.Parts()
	for _, name := range o.Without {
		if !slices.Contains(all, name) {
			return &report.ExitError{Code: report.ExitUsage, Key: "--without",
				Err: fmt.Errorf("the learner has no part %q; its parts are %s", name, strings.Join(all, ", "))}
		}
	}
	if len(o.Without) > 0 {
		model := *o.Model
		model.Without = o.Without
		o.Model = &model
	}
	return nil
}
