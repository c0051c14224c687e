package main

import (
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	mangokong "github.com/alecthomas/mango-kong"
	"github.com/muesli/roff"
)

// completionScripts let a shell ask the program itself, which kongplete answers, what can follow. A shell of which the
// program completes nothing completes names of files.
var completionScripts = map[string]string{
	"bash": "complete -o default -C refitd refitd\n",
	"zsh": `#compdef refitd
autoload -U +X bashcompinit && bashcompinit
if [[ $funcstack[1] == _refitd ]]; then _bash_complete -o default -C refitd; else complete -o default -C refitd refitd; fi
`,
	"fish": `function __refitd_complete
  set -lx COMP_LINE (commandline -cp)
  set -l offered (refitd)
  if test (count $offered) -gt 0; printf '%s\n' $offered; else; __fish_complete_path (commandline -ct); end
end
complete -f -c refitd -a "(__refitd_complete)"
`,
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: bash, zsh or fish."`
}

// Run prints the script.
func (c *completionCmd) Run(a *app) error { return a.print(completionScripts[c.Shell]) }

type manCmd struct{}

// Run prints the page.
func (c *manCmd) Run(a *app) error { return a.print(manualPage()) }

// manualPage is refitd(1): the verbs and flags that the help lists, the examples, and notes.
func manualPage() string {
	parser := new(cli).parser()
	_ = kong.Visit(parser.Model, func(at kong.Visitable, next kong.Next) error {
		if node, ok := at.(*kong.Node); ok {
			node.Flags = slices.DeleteFunc(slices.Clone(node.Flags), func(f *kong.Flag) bool { return f.Hidden })
			node.Detail = "" // the examples have a section
		}
		return next(nil)
	})
	parser.Model.Detail = "Commands that work on published versions are below versions, those that work on a state " +
		"below state."
	var lines []string
	for _, verb := range parser.Model.Leaves(true) {
		_, path, _ := strings.Cut(verb.FullPath(), " ")
		if example := examples[path]; example != "" {
			lines = append(lines, example)
		}
	}
	page := mangokong.NewManPage(1, parser.Model).WithSection("Examples", strings.Join(lines, "\n"))
	for _, n := range notes {
		page = page.WithSection(n.title, n.text)
	}
	return strings.Replace(page.Build(roffPage{roff.NewDocument()}), undated.Format(time.DateOnly), "", 1)
}

// undated is the date of a page that has no date: the same program prints the same page.
var undated = time.Time{}

// roffPage is a document without a date. Its text may have a percent sign, which the package roff takes for a format.
type roffPage struct{ *roff.Document }

// Heading is that of a document without the date.
func (p roffPage) Heading(section uint, title, _ string, _ time.Time) {
	p.Document.Heading(section, title, "User Commands", undated)
}

// Text is that of a document for any text.
func (p roffPage) Text(s string) { p.Document.Text(strings.ReplaceAll(s, "%", "%%")) }

// TextBold is that of a document for any text.
func (p roffPage) TextBold(s string) { p.Document.TextBold(strings.ReplaceAll(s, "%", "%%")) }

// notes follow the commands of the manual page.
var notes = []struct{ title, text string }{
	{"Exit status", `* 0: done, also after SIGINT and SIGTERM
* 1: the answer is no
* 2: usage, configuration or input file
* 3: broker unreachable, or it refused us
* 4: a partition halted: an operator must decide
* 5: state in use or damaged, or disk full
* 6: no model`},
	{"Signals", "SIGTERM and SIGINT end a command as soon as what it holds is written; a second one ends it at once. " +
		"SIGHUP lets run read its configuration again."},
	{
		"Files",
		"Relative paths in a configuration file are relative to that file. refitd check config --print-defaults " +
			"prints every key with its default.",
	},
}
