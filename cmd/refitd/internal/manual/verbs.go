// Package manual writes what the command line is described by elsewhere than in its help: the manual page, and completion for shells. Both are made
// of the same flags and texts as the help.
package manual

import (
	"strings"

	"github.com/alecthomas/kong"
)

// verb is a command that can be run, such as "check config", or the group of such, such as "check".
type verb struct {
	path  string // "" is the program itself
	help  string
	nodes []*kong.Node // what it is followed by
	args  []*kong.Value
	flags []*kong.Flag // its own, without those of every verb
	leaf  bool
}

// verbsOf lists the program, then its verbs and groups in the order of the help. Hidden ones are left out.
func verbsOf(app *kong.Application) (list []verb) {
	var walk func(n *kong.Node, path string)
	walk = func(n *kong.Node, path string) {
		v := verb{path: path, help: n.Help, args: n.Positional, flags: visible(n.Flags), leaf: len(n.Children) == 0}
		for _, child := range n.Children {
			if !child.Hidden {
				v.nodes = append(v.nodes, child)
			}
		}
		list = append(list, v)
		for _, child := range v.nodes {
			walk(child, strings.TrimSpace(path+" "+child.Name))
		}
	}
	walk(app.Node, "")
	return list
}

func visible(flags []*kong.Flag) (list []*kong.Flag) {
	for _, f := range flags {
		if !f.Hidden {
			list = append(list, f)
		}
	}
	return list
}

// values are what a flag or an argument can be, nil if that is open.
func values(v *kong.Value) (list []string) {
	for word := range strings.SplitSeq(v.Enum, ",") {
		if word != "" {
			list = append(list, word)
		}
	}
	return list
}

// isPath reports whether the value of a flag is a file or a directory.
func isPath(v *kong.Value) bool {
	name := v.Tag.PlaceHolder
	return strings.HasPrefix(name, "FILE") || name == "DIR"
}

// Examples adds to the help of each verb the example of its path, such as "check config".
func Examples(app *kong.Application, examples map[string]string) {
	for _, n := range app.Leaves(false) {
		if example := examples[pathOf(n)]; example != "" {
			n.Detail = "Example:\n\n    " + strings.ReplaceAll(example, "\n", "\n    ")
		}
	}
}

// pathOf is the path of a verb without the program.
func pathOf(n *kong.Node) string {
	_, path, _ := strings.Cut(n.FullPath(), " ")
	return path
}
