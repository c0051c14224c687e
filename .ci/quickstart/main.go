// Command quickstart checks what `refitd quickstart --json` printed: versions in time, losses below the baselines, and
// a score command that works.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"

	"github.com/refitd/refitd/daemon/report"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: quickstart FILE")
	}
	f, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	counts := make(map[string]int)
	var summary report.QuickstartSummary
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	last := ""
	for lines.Scan() {
		var head struct{ Type string }
		if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
			log.Fatalf("line %q: %v", lines.Text(), err)
		}
		if last == "" && head.Type != "broker" {
			log.Fatalf("the first line is %s, not broker", head.Type)
		}
		last = head.Type
		counts[last]++
		if last == "summary" {
			if err := json.Unmarshal(lines.Bytes(), &summary); err != nil {
				log.Fatal(err)
			}
		}
	}
	if err := check(counts, last, &summary); err != nil {
		log.Fatalf("quickstart: %v; lines by type: %v", err, counts)
	}
	score := exec.Command(summary.ScoreArgv[0], summary.ScoreArgv[1:]...)
	score.Stdin = strings.NewReader(summary.ScoreStdin)
	out, err := score.Output()
	if err != nil || !strings.Contains(string(out), `"prediction"`) {
		log.Fatalf("%s: %v: %s", strings.Join(summary.ScoreArgv, " "), err, out)
	}
	w, b := summary.Progressive.Window, summary.Progressive.Baselines
	fmt.Printf(
		"quickstart: %d versions, the first after %.1f s; window rmse published %.3f, live %.3f, item mean %.3f, sgd bias "+
			"%.3f\n",
		summary.Versions,
		*summary.FirstVersionSeconds,
		*w.Published.RMSE,
		*w.Live.RMSE,
		*b.ItemMean.RMSE,
		*b.SGDBias.RMSE,
	)
}

func check(counts map[string]int, last string, s *report.QuickstartSummary) error {
	w, b := s.Progressive.Window, s.Progressive.Baselines
	switch {
	case last != "summary":
		return fmt.Errorf("the last line is %q, not summary", last)
	case counts["tick"] < 20:
		return fmt.Errorf("%d ticks in 30 s", counts["tick"])
	case counts["drift"] != 1:
		return fmt.Errorf("%d changes of taste", counts["drift"])
	case s.FirstVersionSeconds == nil || *s.FirstVersionSeconds > 15:
		return fmt.Errorf("no version within 15 s")
	case w.Published == nil || w.Published.RMSE == nil || w.Live.RMSE == nil:
		return fmt.Errorf("no progressive losses")
	case *w.Published.RMSE >= *b.ItemMean.RMSE || *w.Published.RMSE >= *b.GlobalMean.RMSE:
		return fmt.Errorf("published rmse %.4f is not below the means %.4f and %.4f", *w.Published.RMSE,
			*b.ItemMean.RMSE, *b.GlobalMean.RMSE)
	case *w.Live.RMSE >= *b.SGDBias.RMSE:
		return fmt.Errorf("live rmse %.4f is not below the SGD biases' %.4f", *w.Live.RMSE, *b.SGDBias.RMSE)
	}
	return nil
}
