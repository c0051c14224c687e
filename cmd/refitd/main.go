// Command refitd keeps interaction models fresh from Kafka. Each verb has a struct of flags and a method Run(*app)
// error; cli below lists them, in groups where several verbs work on one thing. See otherNames for what else they are
// called.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/willabides/kongplete"

	"github.com/refitd/refitd/cmd/refitd/internal/terminal"
	"github.com/refitd/refitd/daemon/build"
	"github.com/refitd/refitd/daemon/logs"
	"github.com/refitd/refitd/daemon/progress"
	"github.com/refitd/refitd/daemon/report"
)

// cli is the command line: the flags of every verb, and one field for each verb.
type cli struct {
	JSON bool `name:"json" help:"Print JSON Lines, each with a type, the last one summary or error."`
	Log  struct {
		Level  slog.Level `default:"info" help:"Least severe log line: debug, info, warn or error."`
		Format string     `default:"logfmt" enum:"logfmt,json" help:"Format of the log on standard error: logfmt or json."`
	} `                                                                                      embed:"" prefix:"log."`

	Quickstart quickstartCmd `cmd:"" help:"Watch a model being learned, with a broker and a stream."`
	Init       initCmd       `cmd:"" help:"Write a configuration for the events of a file or a topic."`
	Check      checkCmd      `cmd:"" help:"Check a configuration file, or what becomes of an event."`
	Replay     replayCmd     `cmd:"" help:"Send the records of a file to a topic."`
	Run        runCmd        `cmd:"" help:"Read, learn and publish: the daemon."`
	Fit        fitCmd        `cmd:"" help:"Fit a model to a file and test it."`
	Backtest   backtestCmd   `cmd:"" help:"Run the daemon's learning cycle over a file."`
	Eval       evalCmd       `cmd:"" help:"Compare a published version with labelled events."`
	Score      scoreCmd      `cmd:"" help:"Predict events with a published version."`
	Versions   versionsCmd   `cmd:"" help:"Work on published versions: list, promote, diff, export, …"`
	State      stateCmd      `cmd:"" help:"Work on the state of a stopped daemon: back up, restore, …"`
	Keys       keysCmd       `cmd:"" help:"Make keys that sign versions."`
	CheckState checkStateCmd `cmd:"" help:"Read everything in a state directory."                        hidden:""`
	Completion completionCmd `cmd:"" help:"Print a script that completes commands and flags in a shell." hidden:""`
	Man        manCmd        `cmd:"" help:"Print the manual page, refitd(1), as roff."                   hidden:""`
	VersionCmd versionCmd    `cmd:"" help:"Print the version of this program, or what it is made of."              name:"version"`
}

// app is what a verb needs of the process.
type app struct {
	ctx      context.Context // done after SIGINT or SIGTERM: a verb then ends what it does and returns nil
	stdin    io.Reader
	stdout   io.Writer // for text that is neither a report nor JSON; everything else goes through out
	out      *report.Emitter
	log      *slog.Logger
	screen   *progress.Screen // nil where nobody sees progress drawn: it goes to the log
	flags    *cli
	verb     string // as it was called, such as "state inspect"
	terminal bool   // standard output is one, and not of JSON
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		second := <-signals // it ends the process at once, however soon it comes
		signal.Reset()
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Signal(second)
		}
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// exitPanic carries the code of a --help or --version through kong, which expects its exit function not to return.
type exitPanic int

// run runs one command line and returns the exit code of the contract.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			exit, ok := r.(exitPanic)
			if !ok {
				panic(r)
			}
			code = int(exit)
		}
	}()
	if slices.Equal(args, []string{"--version"}) { // not a flag of the parser: --version N belongs to the verbs
		fmt.Fprintln(stdout, "refitd "+build.String())
		return report.ExitDone
	}
	if len(args) > 0 && args[0] == "help" { // as other commands have it
		args = append(slices.Clone(args[1:]), "--help")
	}
	var flags cli
	parser := flags.parser(kong.Writers(stdout, stderr), kong.Exit(func(code int) { panic(exitPanic(code)) }))
	kongplete.Complete(parser) // does not return where a shell asks for completions
	parsed, err := parser.Parse(args)
	if err != nil {
		var at *kong.Context
		if e, ok := errors.AsType[*kong.ParseError](err); ok {
			at = e.Context
		}
		// kong stops at the first error, so --json may not have been read. It lists the empty value of a flag that may
		// be left out.
		text := strings.Replace(err.Error(), `must be one of "",`, "must be one of ", 1)
		return fail(report.NewEmitter(stdout, slices.Contains(args, "--json")), stderr,
			report.Exitf(report.ExitUsage, "%s; %s", text, seeHelp(at)))
	}
	a := &app{
		ctx:      ctx,
		stdin:    stdin,
		flags:    &flags,
		verb:     parsed.Command(),
		terminal: !flags.JSON && progress.IsTerminal(stdout),
	}
	if !flags.JSON {
		a.screen, stdout, stderr = progress.ScreenOf(stdout, stderr)
	}
	a.stdout, a.out = stdout, report.NewEmitter(stdout, flags.JSON)
	a.out.Fit(a.columns)
	a.log = newLogger(stderr, flags.Log.Level, flags.Log.Format)
	err = untilSignal(ctx, a.verb, func() error { return parsed.Run(a) })
	if e, ok := errors.AsType[*report.ExitError](err); ok && e.Code == report.ExitUsage &&
		strings.HasPrefix(e.Key, "--") &&
		e.Path == "" &&
		!e.Reported {
		e.Err = fmt.Errorf("%w; %s", e.Err, seeHelp(parsed)) // a flag is missing, or at odds with another
	}
	return fail(a.out, stderr, err)
}

// seeHelp names the help of the verb that a command line got to, or that of the program.
func seeHelp(at *kong.Context) string {
	if at == nil || at.Selected() == nil {
		return "see refitd --help"
	}
	return "see " + at.Selected().FullPath() + " --help"
}

// fail prints an error, on standard output as the last JSON line or on standard error as text, and returns the exit
// code.
func fail(out *report.Emitter, stderr io.Writer, err error) int {
	if err == nil {
		return report.ExitDone
	}
	if e, ok := errors.AsType[*report.ExitError](err); ok && e.Reported {
		return e.Code
	}
	if line := report.ErrorOf(err); out.IsJSON() {
		err = errors.Join(err, out.Emit("error", line))
	} else {
		line.WriteText(stderr)
	}
	return report.CodeOf(err)
}

func newLogger(w io.Writer, level slog.Level, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	var lines slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		lines = slog.NewJSONHandler(w, options)
	}
	return slog.New(logs.NewHandler(lines, time.Now))
}

// progress shows how far a verb is until the meter is stopped.
func (a *app) progress(verb string) *progress.Meter { return progress.Start(verb, a.screen, a.log) }

// columns is how many columns the terminal has, 0 if standard output is none.
func (a *app) columns() int { return terminal.Width(a.stdout) }

// print writes text to standard output as it is.
func (a *app) print(text string) error {
	_, err := io.WriteString(a.stdout, text)
	return err
}
