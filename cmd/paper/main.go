// Command paper repeats tables and figures of Blondel et al. 2015, 2016 and 2017 and of Tajima et al. 2020 over a
// directory of data sets: Markdown on standard output, and Markdown, CSV, SVG and PNG files in a directory. It exits
// with 1 if a bar was missed. It is no part of refitd's releases.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/refitd/refitd/cmd/paper/internal/experiment"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
)

// cli is the command line: the flags of every experiment, and one field for each.
type cli struct {
	Data    string `default:"../shared/data" placeholder:"DIR" help:"Directory of the data sets, with one folder for each (default ${default})."`
	Out     string `default:"paper-out"      placeholder:"DIR" help:"Directory for tables and figures (default ${default})."`
	Quick   bool   `                                           help:"A short form on small sets, without bars."`
	Threads int    `                         placeholder:"N"   help:"Threads; by default one for each processor."`

	Table2  overSplits `cmd:"" name:"table2"  help:"Table 2: three penalties with output and full refits on the multi-class sets."`
	Figure2 overSets   `cmd:"" name:"figure2" help:"Figure 2: how near the best criterion the ways to choose a basis vector come."`
	Figure3 overSplits `cmd:"" name:"figure3" help:"Figure 3: accuracy against basis vectors for the three penalties."`
	Figure4 overSplits `cmd:"" name:"figure4" help:"Figure 4: error and ranking on MovieLens against basis vectors, one output and McRank."`
	Figure5 overSets   `cmd:"" name:"figure5" help:"Figure 5: output refits against full refits, by basis vectors and by seconds."`
	Best    overSplits `cmd:"" name:"best"    help:"The best models of MovieLens, with variational and full refits."`
	Speed   struct{}   `cmd:"" name:"speed"   help:"Seconds of three fits, compared with figures of others."`
	Warm    struct{}   `cmd:"" name:"warm"    help:"What a warm start saves after rows were replaced."`
	SVM2020 overSplits `cmd:"" name:"svm2020" help:"Tajima et al. 2020, figures 1 and 2, tables 1 and 2: support vector machines by Frank–Wolfe."`
	FM2015  overSplits `cmd:"" name:"fm2015"  help:"Blondel et al. 2015, table 1 and, on MovieLens, table 2 and figure 1: convex factorization machines."`
	Memory  struct{}   `cmd:"" name:"memory"  help:"Bytes per row, basis vector and parameter of a solve."`
	Streams overSets   `cmd:"" name:"streams" help:"Live and published on streams, next to baselines and, where it is installed, the best of eight settings of vw: with --data that parts takes."`
	Parts   overSets   `cmd:"" name:"parts"   help:"What each part of the learner gains on streams: --data has NAME.yaml and NAME-1.jsonl, NAME-2.jsonl … of each."`

	Defaults overSets `cmd:"" name:"defaults" help:"How losses change on streams where one key has another value than its default: with --data that parts takes."`

	Figure12016 struct{} `cmd:"" name:"2016-figure1" help:"2016, figure 1: the objective with fitted and fixed weights."`
	Figure22016 struct{} `cmd:"" name:"2016-figure2" help:"2016, figure 2: lifted and direct coordinate descent against seconds."`
	Figure32016 overSets `cmd:"" name:"2016-figure3" help:"2016, figure 3: error on tag counts and ratings."`
	Figure42016 overSets `cmd:"" name:"2016-figure4" help:"2016, figure 4: R² of regression against basis vectors, by coordinate descent."`
}

// overSets are the flags of an experiment over sets.
type overSets struct {
	Sets []string `placeholder:"NAME,…" help:"Sets: of vowel.t, vowel, segment, satimage, letter, or of ML-100k, ML-1M, generated; else those of the experiment."`
}

// overSplits are the flags of one over splits as well.
type overSplits struct {
	overSets
	Splits int `placeholder:"N" help:"Splits; by default those of the experiment."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs one experiment and returns the exit code: 1 for a missed bar or a failure, 2 for a wrong command line or
// missing data.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var flags cli
	exited := -1
	parser, err := kong.New(
		&flags,
		kong.Name("paper"),
		kong.Description("Repeats the tables and figures of the papers."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		panic("paper: command line: " + err.Error()) // the tags of cli are wrong
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited >= 0: // --help
		return exited
	case err != nil:
		fmt.Fprintf(stderr, "paper: %v; see paper --help\n", err)
		return report.ExitUsage
	}
	screen, stdout, stderr := progress.ScreenOf(stdout, stderr)
	log := slog.New(slog.NewTextHandler(stderr, nil))
	meter := progress.Start(parsed.Command(), screen, log)
	o := experiment.Options{
		Data:     flags.Data,
		Quick:    flags.Quick,
		Threads:  flags.Threads,
		Now:      time.Now,
		Log:      log,
		Progress: meter,
	}
	err = flags.experiment(ctx, parsed.Command(), o, stdout)
	meter.Stop()
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("paper: interrupted, nothing was written")
		}
		fmt.Fprintln(stderr, err)
		if errors.Is(err, experiment.ErrNoData) || errors.Is(err, experiment.ErrOptions) {
			return report.ExitUsage
		}
		return report.ExitNo
	}
	return report.ExitDone
}

// experiment runs the named experiment and writes its report.
func (c *cli) experiment(ctx context.Context, name string, o experiment.Options, stdout io.Writer) error {
	e := map[string]struct {
		flags overSplits
		run   func(context.Context, experiment.Options) (*experiment.Report, error)
	}{
		"table2":  {c.Table2, experiment.Table2},
		"figure2": {overSplits{overSets: c.Figure2}, experiment.Figure2},
		"figure3": {c.Figure3, experiment.Figure3},
		"figure4": {c.Figure4, experiment.Figure4},
		"figure5": {overSplits{overSets: c.Figure5}, experiment.Figure5},
		"best":    {c.Best, experiment.Best},
		"speed":   {run: experiment.Speed},
		"warm":    {run: experiment.Warm},
		"svm2020": {c.SVM2020, experiment.SVM2020},
		"fm2015":  {c.FM2015, experiment.FM2015},
		"memory":  {run: experiment.Memory},
		"streams": {overSplits{overSets: c.Streams}, experiment.Streams},
		"parts":   {overSplits{overSets: c.Parts}, experiment.Parts},

		"defaults": {overSplits{overSets: c.Defaults}, experiment.Defaults},

		"2016-figure1": {run: experiment.Weights2016},
		"2016-figure2": {run: experiment.Lifting2016},
		"2016-figure3": {overSplits{overSets: c.Figure32016}, experiment.Recommend2016},
		"2016-figure4": {overSplits{overSets: c.Figure42016}, experiment.Budget2016},
	}[name]
	o.Sets, o.Splits = e.flags.Sets, e.flags.Splits
	r, err := e.run(ctx, o)
	if err != nil {
		return err
	}
	return r.Write(stdout, c.Out)
}
