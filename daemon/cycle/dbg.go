package cycle

import (
	"fmt"
	"os"

	"github.com/refitd/refitd/daemon/cycle/guard"
	"github.com/refitd/refitd/daemon/cycle/mixture"
	"github.com/refitd/refitd/daemon/cycle/updates"
)

func dbg(c *Cycle, x *updates.Update, h guard.HeldBack) {
	if os.Getenv("DBG50") == "" {
		return
	}
	fmt.Fprintf(os.Stderr, "UPD n=%d form=%d held=%q prefers=%v lags", c.progress.progressive.Sums.N, x.Form, h, c.publisher.updates)
	for f := range mixture.NumForms {
		if x.Forms[f].Model != nil {
			r := &c.publisher.race.Refits[f]
			fmt.Fprintf(os.Stderr, " %d:%.1f/%v(%.3f)", f, c.publisher.behind.lags[f].Gain(), c.publisher.behind.lags[f].IsLarge(), r.Sum/r.N)
		}
	}
	if w := x.Forms[mixture.FormPool].Pooled; w != nil {
		fmt.Fprintf(os.Stderr, " w=%.2f %.2f", w.Factors, w.Constant)
	}
	fmt.Fprintln(os.Stderr)
}
