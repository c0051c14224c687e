package replay

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"
)

// progress is how far a replay has come: done of total, in bytes of the file or in records.
type progress struct {
	done, total  atomic.Int64
	acknowledged *atomic.Int64
	began        time.Time
}

func (p *progress) set(done, total int64) {
	p.done.Store(done)
	p.total.Store(total)
}

const barWidth = 30

// line is a bar with what is left, as in "replay: [=======>       ]  48 %  48,000 records, 24,000 a second, 2s left".
func (p *progress) line(now time.Time) string {
	n, elapsed := p.acknowledged.Load(), now.Sub(p.began)
	text := fmt.Sprintf("%d records, %.0f a second", n, float64(n)/elapsed.Seconds())
	done, total := p.done.Load(), p.total.Load()
	if total <= 0 {
		return "replay: " + text
	}
	share := min(float64(done)/float64(total), 1)
	filled := int(share * barWidth)
	bar := strings.Repeat("=", filled) + strings.Repeat(" ", barWidth-filled)
	if filled > 0 && filled < barWidth {
		bar = bar[:filled-1] + ">" + bar[filled:]
	}
	if share > 0 {
		left := time.Duration(float64(elapsed) * (1 - share) / share)
		text += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	return fmt.Sprintf("replay: [%s] %3.0f %%  %s", bar, 100*share, text)
}

// show prints a line once a second until the returned function is called, which waits for the last one. On a terminal each line takes the
// place of the one before.
func (p *progress) show(w io.Writer, terminal bool) (stop func()) {
	if w == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-quit:
				if shown && terminal {
					fmt.Fprintln(w)
				}
				return
			case now := <-tick.C:
				shown = true
				if terminal {
					fmt.Fprintf(w, "\r\x1b[K%s", p.line(now)) // from the start of the line, which is cleared
				} else {
					fmt.Fprintln(w, p.line(now))
				}
			}
		}
	}()
	return func() { close(quit); <-done }
}
