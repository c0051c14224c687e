package manual

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Shells are those that Completion knows.
const Shells = "bash,zsh,fish"

// Completion writes a script for a shell that completes verbs, flags and the values of flags and arguments that have a list of them; else files.
func Completion(w io.Writer, app *kong.Application, shell string) error {
	s := &script{name: app.Name, verbs: verbsOf(app)}
	switch shell {
	case "bash":
		s.bash()
	case "zsh":
		s.zsh()
	case "fish":
		s.fish()
	default:
		return fmt.Errorf("manual: no completion for shell %q: it has to be one of %s", shell, Shells)
	}
	_, err := io.WriteString(w, s.String())
	return err
}

type script struct {
	strings.Builder
	name  string
	verbs []verb
}

func (s *script) line(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// flagsOf are the flags that can follow a verb: its own and those of every verb.
func (s *script) flagsOf(v *verb) []*kong.Flag {
	if v.path == "" {
		return v.flags
	}
	return append(append([]*kong.Flag{}, v.flags...), s.verbs[0].flags...)
}

// paths are the verbs and groups as patterns of a shell's case.
func (s *script) paths() string {
	var list []string
	for _, v := range s.verbs[1:] {
		list = append(list, quote(v.path))
	}
	return strings.Join(list, "|")
}

// quote writes a word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// bash: the flags of the verb that the words before name; readline completes files where the function has nothing to offer.
func (s *script) bash() {
	s.line("# bash completion of %s: source it, or put it into the directory of bash-completion", s.name)
	s.line("_%s() {", s.name)
	s.line("  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= word")
	s.line("  [[ $cur == = ]] && cur= || { [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}; }")
	s.line("  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do")
	s.line("    case \"${verb:+$verb }$word\" in %s) verb=\"${verb:+$verb }$word\" ;; esac", s.paths())
	s.line("  done")
	s.line("  COMPREPLY=()")
	s.line("  case \"$verb $prev\" in")
	for i := range s.verbs {
		v := &s.verbs[i]
		for _, f := range s.flagsOf(v) {
			if list := values(f.Value); list != nil {
				s.line("    %s) COMPREPLY=($(compgen -W %s -- \"$cur\")); return ;;", quote(v.path+" --"+f.Name), quote(strings.Join(list, " ")))
			} else if !f.IsBool() {
				s.line("    %s) return ;;", quote(v.path+" --"+f.Name))
			}
		}
	}
	s.line("  esac")
	s.line("  case \"$verb\" in")
	for i := range s.verbs {
		v := &s.verbs[i]
		var words []string
		for _, n := range v.nodes {
			words = append(words, n.Name)
		}
		for _, a := range v.args {
			words = append(words, values(a)...)
		}
		for _, f := range s.flagsOf(v) {
			words = append(words, "--"+f.Name)
		}
		s.line("    %s) COMPREPLY=($(compgen -W %s -- \"$cur\")) ;;", quote(v.path), quote(strings.Join(words, " ")))
	}
	s.line("  esac")
	s.line("}")
	s.line("complete -o default -F _%s %s", s.name, s.name)
}

// zsh: _arguments sees the verb as its command.
func (s *script) zsh() {
	escape := func(help string) string { return strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`).Replace(help) }
	s.line("#compdef %s", s.name)
	s.line("_%s() {", s.name)
	s.line("  local verb= word i last=1")
	s.line("  for ((i = 2; i < CURRENT; i++)); do")
	s.line("    word=${words[i]}")
	s.line("    case \"${verb:+$verb }$word\" in (%s) verb=\"${verb:+$verb }$word\" last=$i ;; esac", s.paths())
	s.line("  done")
	s.line("  words=(%s \"${(@)words[last+1,-1]}\")", s.name)
	s.line("  (( CURRENT -= last - 1 ))")
	s.line("  case $verb in")
	for i := range s.verbs {
		v := &s.verbs[i]
		s.line("    (%s)", quote(v.path))
		if v.nodes != nil {
			var list []string
			for _, n := range v.nodes {
				list = append(list, quote(strings.ReplaceAll(n.Name, ":", `\:`)+":"+n.Help))
			}
			s.line("      local -a verbs=(%s)", strings.Join(list, " "))
			s.line("      [[ ${words[CURRENT]} == -* ]] || { _describe -t commands command verbs; return }")
		}
		text := "      _arguments -S"
		for _, f := range s.flagsOf(v) {
			spec := "--" + f.Name
			if !f.IsBool() {
				spec += "="
			}
			spec = "*" + spec + "[" + escape(f.Help) + "]"
			switch list := values(f.Value); {
			case f.IsBool():
			case list != nil:
				spec += ":value:(" + strings.Join(list, " ") + ")"
			case isPath(f.Value) && f.Tag.PlaceHolder == "DIR":
				spec += ":directory:_files -/"
			case isPath(f.Value):
				spec += ":file:_files"
			default:
				spec += ":value: "
			}
			text += " \\\n        " + quote(spec)
		}
		for _, a := range v.args {
			spec := "::" + escape(a.Help) + ":"
			switch list := values(a); {
			case list != nil:
				spec += "(" + strings.Join(list, " ") + ")"
			case isPath(a):
				spec += "_files"
			default:
				spec += " "
			}
			text += " \\\n        " + quote(spec)
		}
		s.line("%s ;;", text)
	}
	s.line("  esac")
	s.line("}")
	s.line("if [[ $funcstack[1] == _%s ]]; then _%s \"$@\"; else compdef _%s %s; fi", s.name, s.name, s.name, s.name)
}

// fish: one line for each verb and flag, under the condition that the words before name its verb.
func (s *script) fish() {
	word := func(t string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(t) + "'" }
	at := func(path string) string {
		return word("__" + s.name + "_at " + strings.ReplaceAll(word(path), "'", `"`))
	}
	s.line("function __%s_at", s.name)
	s.line("  set -l verb")
	s.line("  for word in (commandline -opc)[2..-1]")
	s.line("    switch (string join ' ' -- $verb $word)")
	s.line("      case %s", strings.ReplaceAll(s.paths(), "|", " "))
	s.line("        set -a verb $word")
	s.line("    end")
	s.line("  end")
	s.line("  test \"$verb\" = \"$argv[1]\"")
	s.line("end")
	for i := range s.verbs {
		v := &s.verbs[i]
		for _, n := range v.nodes {
			s.line("complete -c %s -n %s -f -a %s -d %s", s.name, at(v.path), word(n.Name), word(n.Help))
		}
		for _, a := range v.args {
			if list := values(a); list != nil {
				s.line("complete -c %s -n %s -f -a %s", s.name, at(v.path), word(strings.Join(list, " ")))
			}
		}
		for _, f := range s.flagsOf(v) {
			text := fmt.Sprintf("complete -c %s -n %s -l %s", s.name, at(v.path), f.Name)
			switch list := values(f.Value); {
			case f.IsBool():
			case list != nil:
				text += " -x -a " + word(strings.Join(list, " "))
			case isPath(f.Value):
				text += " -r -F"
			default:
				text += " -x"
			}
			s.line("%s -d %s", text, word(f.Help))
		}
	}
}
