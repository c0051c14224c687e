package main

import (
	"errors"
	"io"
	"os"

	"github.com/refitd/refitd/cmd/refitd/internal/rules"
	"github.com/refitd/refitd/configs"
	"github.com/refitd/refitd/daemon/report"
)

type checkRulesCmd struct {
	File  string `arg:"" optional:"" placeholder:"FILE" help:"Prometheus rule file; without one the rules that refitd ships."`
	Print bool   `help:"Print the rules that refitd ships, to change a copy."`
}

// Run prints the summary. A bad file is exit code 2; in JSON its mistakes are in the summary, in text they are the error.
func (c *checkRulesCmd) Run(a *app) error {
	if c.Print {
		return a.print(configs.Rules)
	}
	src := []byte(configs.Rules)
	if c.File != "" {
		f, err := os.Open(c.File)
		if err == nil {
			src, err = io.ReadAll(io.LimitReader(f, rules.MaxFileBytes+1))
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return &report.ExitError{Code: report.ExitUsage, Err: err, Key: "FILE", Path: c.File}
		}
	}
	found := rules.Check(src)
	summary := report.RulesSummary{OK: len(found.Problems) == 0, Groups: found.Groups, Recordings: found.Recordings, Alerts: found.Alerts,
		Errors: found.Problems}
	if summary.Errors == nil {
		summary.Errors = []report.RuleProblem{}
	}
	if err := a.out.Emit("summary", summary); err != nil || summary.OK {
		return err
	}
	return &report.ExitError{Code: report.ExitUsage, Reported: true}
}
