// Package progress says how far long work has come: on a terminal in one line that is drawn over, else by a line in the
// log every ten seconds. It measures nothing itself, and work that is done before then says nothing.
package progress

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	drawEvery = 500 * time.Millisecond
	logEvery  = 10 * time.Second
)

// A Meter shows one piece of work, stage after stage. Its methods may be called by several goroutines; the nil meter
// shows nothing.
type Meter struct {
	name   string
	screen *Screen // nil for the log
	log    *slog.Logger

	stop  sync.Once
	quit  chan struct{}
	ended chan struct{}

	mu sync.Mutex
	at stage
}

// stage is what a meter shows. Rates and what is left are averages over the stage.
type stage struct {
	name, unit  string
	began       time.Time
	count       int64 // in units
	total       int64 // in units, 0 if it is not known
	part, whole int64 // of another measure of how far it is; whole is 0 if count and total say it
}

// Start shows the work called name, such as the verb, on screen, or in log if that is nil, until Stop.
func Start(name string, screen *Screen, log *slog.Logger) *Meter {
	m := &Meter{name: name, screen: screen, log: log, quit: make(chan struct{}), ended: make(chan struct{})}
	m.at.began = time.Now()
	every := logEvery
	if screen != nil {
		every = drawEvery
	}
	go m.show(every)
	return m
}

func (m *Meter) show(every time.Duration) {
	defer close(m.ended)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-m.quit:
			return
		case now := <-tick.C:
			m.mu.Lock()
			at := m.at
			m.mu.Unlock()
			if m.screen != nil {
				m.screen.draw(m.name + ": " + at.line(now, lineWidth-len(m.name)-len(": ")))
			} else {
				m.log.Info("progress", append([]any{"of", m.name}, at.attributes(now)...)...)
			}
		}
	}
}

// Stop takes the line from the screen and waits until nothing more is shown. It may be called again.
func (m *Meter) Stop() {
	if m == nil {
		return
	}
	m.stop.Do(func() {
		close(m.quit)
		<-m.ended
		if m.screen != nil {
			m.screen.draw("")
		}
	})
}

// Stage begins a stage of total units, such as "events"; 0 if that is not known. Units called "bytes" are shown as MiB.
func (m *Meter) Stage(name, unit string, total int64) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.at = stage{name: name, unit: unit, began: time.Now(), total: total}
	}
}

// Add counts n more units of the stage.
func (m *Meter) Add(n int64) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.at.count += n
	}
}

// Set says that the stage has come to count of total units; 0 if the total is not known.
func (m *Meter) Set(count, total int64) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.at.count, m.at.total = count, total
	}
}

// Pass says that the stage has come to done of total units, and what these are: the progress of work that counts it.
// Units of another kind, or fewer than before, are of another pass, whose rate is its own.
func (m *Meter) Pass(unit string, done, total int64) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if at := &m.at; unit != at.unit || done < at.count {
			*at = stage{name: at.name, unit: unit, began: time.Now()}
		}
		m.at.count, m.at.total = done, total
	}
}

// Reach says how far the stage is by another measure than its units, such as bytes of a file of records.
func (m *Meter) Reach(part, whole int64) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.at.part, m.at.whole = part, whole
	}
}

// Reader returns r, whose bytes count as units of the stage.
func (m *Meter) Reader(r io.Reader) io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		n, err := r.Read(b)
		m.Add(int64(n))
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// share is how much of the stage is done, from 0 to 1; not known without a total.
func (s *stage) share() (share float64, known bool) {
	part, whole := s.part, s.whole
	if whole <= 0 {
		part, whole = s.count, s.total
	}
	if whole <= 0 {
		return 0, false
	}
	return min(max(float64(part)/float64(whole), 0), 1), true
}

// rate is in units a second.
func (s *stage) rate(now time.Time) float64 {
	if elapsed := now.Sub(s.began).Seconds(); elapsed > 0 {
		return float64(s.count) / elapsed
	}
	return 0
}

// left is how long the stage takes yet if it continues as it went so far; not known before anything is done.
func (s *stage) left(now time.Time) (left time.Duration, known bool) {
	share, known := s.share()
	if !known || share == 0 {
		return 0, false
	}
	return time.Duration(float64(now.Sub(s.began)) * (1 - share) / share).Round(time.Second), true
}

// attributes are the stage in a line of the log.
func (s *stage) attributes(now time.Time) []any {
	list := []any{"stage", s.name, "seconds", int64(now.Sub(s.began).Seconds())}
	if s.unit != "" {
		list = append(list, s.unit, s.count)
		if s.total > 0 {
			list = append(list, "total", s.total)
		}
		list = append(list, "per_second", fmt.Sprintf("%.4g", s.rate(now)))
	}
	if share, known := s.share(); known {
		list = append(list, "percent", int(100*share))
	}
	if left, known := s.left(now); known {
		list = append(list, "left", left)
	}
	return list
}

const (
	barWidth  = 20
	leastBar  = 4  // a shorter one adds nothing to the per cent
	lineWidth = 79 // a line that is as wide as the terminal would be drawn in two
)

// line is the stage on a terminal, as in "learning [=======> ] 40 % 48,000 events, 2,400/s, 30s left". Where that is
// wider than width, the bar is shorter, or left out: the figures are what is looked for.
func (s *stage) line(now time.Time, width int) string {
	figures := " "
	if s.unit != "" {
		figures += " " + s.amount(float64(s.count))
		if s.unit != "bytes" {
			figures += " " + s.unit
		}
		figures += ", " + s.amount(s.rate(now)) + "/s,"
	}
	if left, known := s.left(now); known {
		figures += fmt.Sprintf(" %v left", left)
	} else {
		figures += fmt.Sprintf(" %v so far", now.Sub(s.began).Round(time.Second))
	}
	share, known := s.share()
	if !known {
		return s.name + figures
	}
	figures = fmt.Sprintf("%3d %%", int(100*share)) + figures
	cells := min(barWidth, width-len([]rune(s.name+figures))-len(" [] "))
	if cells < leastBar {
		return s.name + " " + figures
	}
	filled := int(share * float64(cells))
	bar := strings.Repeat("=", filled) + strings.Repeat(" ", cells-filled)
	if filled > 0 && filled < cells {
		bar = bar[:filled-1] + ">" + bar[filled:]
	}
	return s.name + " [" + bar + "] " + figures
}

// amount prints a number of units.
func (s *stage) amount(n float64) string {
	if s.unit == "bytes" {
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	}
	if n > 0 && n < 10 && n != float64(int64(n)) {
		return fmt.Sprintf("%.1f", n)
	}
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
