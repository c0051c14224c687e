package main

import (
	"bytes"

	"github.com/alecthomas/kong"

	"github.com/refitd/refitd/cmd/refitd/internal/manual"
	"github.com/refitd/refitd/daemon/build"
)

type completionCmd struct {
	Shell string `arg:"" enum:"${shells}" help:"Shell: bash, zsh or fish."`
}

// Run prints the script.
func (c *completionCmd) Run(a *app, parser *kong.Kong) error {
	var text bytes.Buffer
	if err := manual.Completion(&text, parser.Model, c.Shell); err != nil {
		return err
	}
	return a.print(text.String())
}

type manCmd struct{}

// Run prints the page.
func (c *manCmd) Run(a *app, parser *kong.Kong) error {
	var text bytes.Buffer
	if err := manual.Page(&text, parser.Model, examples, build.Version, notes...); err != nil {
		return err
	}
	return a.print(text.String())
}

// notes stand behind the commands of the manual page.
var notes = []manual.Section{
	{Title: "exit status", Items: [][2]string{
		{"0", "Done, also after SIGINT and SIGTERM."},
		{"1", "The answer is no."},
		{"2", "Usage, configuration or input file."},
		{"3", "Broker unreachable, or it refused us."},
		{"4", "A partition halted: an operator must decide."},
		{"5", "State in use or damaged, or disk full."},
		{"6", "No model."},
	}},
	{Title: "signals", Items: [][2]string{
		{"", "SIGTERM and SIGINT end a command as soon as what it holds is written; a second one ends it at once. SIGHUP lets run read its configuration again."},
	}},
	{Title: "files", Items: [][2]string{
		{"", "Relative paths in a configuration file are relative to that file. refitd check config --print-defaults prints every key with its default."},
	}},
}
