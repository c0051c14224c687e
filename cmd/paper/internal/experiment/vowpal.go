package experiment

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/refitd/refitd/daemon/config"
)

// vwSettings are those that the best is taken of.
var vwSettings = []string{"", "-l 0.1", "-l 2", "--ftrl", "--coin", "-q ::", "-q :: --ftrl", "-q :: --coin"}

// bestOfVW runs vw, test-then-train, with each of vwSettings over a file, and returns the least loss over all events
// with that over the last tenth, and the setting. It is NaN without vw, and of choices.
func bestOfVW(ctx context.Context, path, data string) (pair, string, error) {
	best := pair{math.NaN(), math.NaN()}
	program, err := exec.LookPath("vw")
	if errors.Is(err, exec.ErrNotFound) {
		return best, "", nil
	}
	if err != nil {
		return best, "", fmt.Errorf("paper: %w", err)
	}
	m, err := modelOf(path)
	if err != nil || m.Schema.Task == config.Implicit || m.Schema.Task == "multilabel" {
		return best, "", err
	}
	dir, err := os.MkdirTemp("", "vw")
	if err != nil {
		return best, "", fmt.Errorf("paper: %w", err)
	}
	defer os.RemoveAll(dir)
	labels, err := writeVW(&m.Schema, data, filepath.Join(dir, "events"))
	if err != nil {
		return best, "", err
	}
	setting := ""
	for _, flags := range vwSettings {
		args := append(strings.Fields(flags), "--quiet", "-b", "22", "-d", "events", "-p", "predictions")
		switch m.Schema.Task {
		case "binary":
			args = append(args, "--loss_function", "logistic", "--link", "logistic")
		case "multiclass":
			args = append(args, "--oaa", strconv.Itoa(len(m.Schema.Classes)), "--probabilities", "--loss_function", "logistic")
		}
		run := exec.CommandContext(ctx, program, args...)
		run.Dir = dir
		if out, err := run.CombinedOutput(); err != nil {
			return best, "", fmt.Errorf("paper: vw %s: %w: %s", flags, err, out)
		}
		loss, err := lossOfVW(filepath.Join(dir, "predictions"), &m.Schema, labels)
		if err != nil {
			return best, "", err
		}
		if !(loss[0] >= best[0]) {
			best, setting = loss, settingText(flags)
		}
	}
	return best, setting, nil
}

func settingText(flags string) string {
	if flags == "" {
		return "default"
	}
	return "`" + flags + "`"
}

// writeVW writes events as vw reads them, a namespace for each field, and returns their labels: numbers, or the places
// of classes.
func writeVW(s *config.Schema, data, to string) (labels []float64, err error) {
	text, err := os.ReadFile(data)
	if err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		var ev map[string]any
		decode := json.NewDecoder(bytes.NewReader(line))
		if decode.UseNumber(); decode.Decode(&ev) != nil {
			continue
		}
		label, written, ok := labelOfVW(s, ev[s.Label])
		if !ok {
			continue
		}
		labels = append(labels, label)
		out.WriteString(written)
		space := 0
		field := func(features ...string) {
			fmt.Fprintf(&out, " |%c %s", 'a'+rune(space%26), strings.Join(features, " "))
			space++
		}
		for _, f := range s.Categorical {
			if v, ok := ev[f]; ok {
				field(wordOf(v))
			}
		}
		for _, f := range s.Multi {
			list, _ := ev[f].([]any)
			var words []string
			for _, v := range list {
				words = append(words, wordOf(v))
			}
			field(words...)
		}
		for _, f := range s.Numeric {
			if v, ok := ev[f].(json.Number); ok {
				field(f + ":" + v.String())
			}
		}
		out.WriteByte('\n')
	}
	if len(labels) == 0 {
		return nil, fmt.Errorf("%w: no event with a label in %s", ErrNoData, data)
	}
	if err := os.WriteFile(to, out.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("paper: %w", err)
	}
	return labels, nil
}

// wordOf returns a name without what separates features.
func wordOf(v any) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == ':' || r == '|' || r == '\n' || r == '\t' {
			return '_'
		}
		return r
	}, fmt.Sprint(v))
}

// labelOfVW returns a label and what vw reads for it.
func labelOfVW(s *config.Schema, v any) (label float64, written string, ok bool) {
	text := fmt.Sprint(v)
	switch s.Task {
	case "binary":
		if text == positiveOf(s) || text == "true" {
			return 1, "1", v != nil
		}
		return 0, "-1", v != nil
	case "multiclass":
		at := slices.Index(s.Classes, text)
		return float64(at), strconv.Itoa(at + 1), at >= 0
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, text, err == nil
}

func positiveOf(s *config.Schema) string {
	if s.Positive != "" {
		return s.Positive
	}
	return "1"
}

// leastProbability keeps log losses finite. Chosen by hand.
const leastProbability = 1e-15

// lossOfVW returns the mean log loss of predictions, of numbers the RMSE.
func lossOfVW(path string, s *config.Schema, labels []float64) (pair, error) {
	f, err := os.Open(path)
	if err != nil {
		return pair{}, fmt.Errorf("paper: %w", err)
	}
	defer f.Close()
	var sum, n pair
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	i := 0
	for ; lines.Scan() && i < len(labels); i++ {
		loss, err := lossOfLine(lines.Text(), s, labels[i])
		if err != nil {
			return pair{}, fmt.Errorf("paper: prediction %d of vw: %w", i+1, err)
		}
		sum[0], n[0] = sum[0]+loss, n[0]+1
		if 10*i >= 9*len(labels) {
			sum[1], n[1] = sum[1]+loss, n[1]+1
		}
	}
	if err := lines.Err(); err != nil || i < len(labels) {
		return pair{}, fmt.Errorf("paper: vw: %d predictions of %d: %w", i, len(labels), errors.Join(err, ErrNoData))
	}
	mean := pair{sum[0] / max(n[0], 1), sum[1] / max(n[1], 1)}
	if s.Task != "binary" && s.Task != "multiclass" {
		mean = pair{math.Sqrt(mean[0]), math.Sqrt(mean[1])}
	}
	return mean, nil
}

// lossOfLine returns the loss of one prediction: 0.25 of a binary label, 1:0.2 2:0.8 of classes, or a number.
func lossOfLine(line string, s *config.Schema, label float64) (float64, error) {
	words := strings.Fields(line)
	at := 0
	if s.Task == "multiclass" {
		at = int(label)
	}
	if at >= len(words) {
		return 0, fmt.Errorf("%q has no field %d", line, at)
	}
	word := words[at]
	if _, after, ok := strings.Cut(word, ":"); ok {
		word = after
	}
	v, err := strconv.ParseFloat(word, 64)
	switch {
	case err != nil:
		return 0, err
	case s.Task == "multiclass" || s.Task == "binary" && label == 1:
		return -math.Log(max(v, leastProbability)), nil
	case s.Task == "binary":
		return -math.Log(max(1-v, leastProbability)), nil
	}
	return (v - label) * (v - label), nil
}
