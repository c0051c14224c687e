package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// otherName is the second name, at the top, of a verb of a group.
type otherName struct {
	name, path string
	listed     bool // in the help: the name stays
}

// otherNames are all of them. Those that are not listed are the names of release 0.1: they go with the release after
// 0.2.
var otherNames = []otherName{
	{"verify", "state verify", true},
	{"inspect", "state inspect", true},
	{"accept-gap", "state accept-gap", false},
	{"backup", "state backup", false},
	{"restore", "state restore", false},
	{"rebuild", "state rebuild", false},
	{"forget", "state forget", false},
	{"aliases", "versions alias", false},
	{"promote", "versions promote", false},
	{"rollback", "versions rollback", false},
	{"log", "versions log", false},
	{"diff", "versions diff", false},
	{"prune", "versions prune", false},
	{"reproduce", "versions reproduce", false},
	{"export", "versions export", false},
}

// parser returns the parser of the command line, with the examples and the other names.
func (c *cli) parser(options ...kong.Option) *kong.Kong {
	options = append([]kong.Option{
		kong.Name("refitd"),
		kong.Description(
			"Keeps compact interaction models fresh from Kafka topics. refitd --version prints the version."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	}, options...)
	parser, err := kong.New(c, options...)
	if err != nil {
		panic("refitd: command line: " + err.Error()) // the tags of cli are wrong
	}
	words := vars()
	for _, verb := range parser.Model.Leaves(false) {
		for _, flag := range verb.Flags {
			flag.Help, flag.Enum = words.Replace(flag.Help), words.Replace(flag.Enum)
		}
		_, path, _ := strings.Cut(verb.FullPath(), " ")
		if example := examples[path]; example != "" {
			verb.Detail = "Example:\n\n    " + strings.ReplaceAll(example, "\n", "\n    ")
		}
	}
	top := parser.Model.Node
	for _, flag := range childOf(childOf(top, "check"), "config").Flags {
		flag.Hidden = slices.Contains([]string{"event", "key", "header", "time"}, flag.Name)
	}
	for _, other := range otherNames {
		noun, name, _ := strings.Cut(other.path, " ")
		group := childOf(top, noun)
		node := moved(childOf(group, name), top)
		node.Name, node.Hidden = other.name, !other.listed
		top.Children = slices.Insert(top.Children, slices.Index(top.Children, group)+1, node)
	}
	return parser
}

// childOf returns the group or verb of a name below the program or a group.
func childOf(group *kong.Node, name string) *kong.Node {
	at := slices.IndexFunc(group.Children, func(n *kong.Node) bool { return n.Name == name })
	return group.Children[at]
}

// moved returns a verb or a group as it is below another parent. The flags and what runs are the same.
func moved(node *kong.Node, parent *kong.Node) *kong.Node {
	out := *node
	out.Parent, out.Children = parent, nil
	for _, child := range node.Children {
		out.Children = append(out.Children, moved(child, &out))
	}
	return &out
}
