package read

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest"
	"github.com/refitd/refitd/daemon/model/part"
	"github.com/refitd/refitd/daemon/report"
)

// TestCatchUpIsPrinted: each step but the begin, which has no rate, is an object with what is left, the rate and the
// time that the rest takes; the log has the begin, a line every ten seconds, and the end.
func TestCatchUpIsPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, log bytes.Buffer
		r := &Reader{
			options: &part.Options{Settings: &config.Model{Name: "m"}, Out: report.NewEmitter(&out, true)},
			log:     slog.New(slog.NewTextHandler(&log, nil)),
		}
		c := ingest.CatchUp{Began: time.Now(), Left: 2_100_000}
		r.onCatchUp(c, ingest.CatchUpBegins)
		for range 20 {
			time.Sleep(time.Second)
			c.Read, c.Left, c.ETA = c.Read+100_000, c.Left-100_000, c.ETA+time.Second
			r.onCatchUp(c, ingest.CatchUpLasts)
		}
		r.onCatchUp(c, ingest.CatchUpEnds)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 21 {
			t.Fatalf("%d objects: %s", len(lines), out.String())
		}
		want := `{"type":"catching_up","model":"m","behind":1100000,"per_second":100000,"eta_seconds":10}`
		if lines[9] != want {
			t.Errorf("after ten seconds\n%s, want\n%s", lines[9], want)
		}
		if n := strings.Count(log.String(), "\n"); n != 4 {
			t.Errorf("%d lines of log, want begin, two and end:\n%s", n, log.String())
		}
	})
}

// TestCatchUpBeforeTheFirstRecord: a rate that is not known is null.
func TestCatchUpBeforeTheFirstRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := &Reader{
			options: &part.Options{Settings: &config.Model{Name: "m"}, Out: report.NewEmitter(&out, true)},
			log:     slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
		r.onCatchUp(ingest.CatchUp{Began: time.Now()}, ingest.CatchUpEnds)
		var line struct {
			PerSecond *float64 `json:"per_second"`
		}
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.PerSecond != nil {
			t.Errorf("%s: %v", out.String(), err)
		}
	})
}
