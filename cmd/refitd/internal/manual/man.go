package manual

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// Page writes the manual page, refitd(1), in the man macros of roff: of every verb the flags and the example. version is shown at its foot, and
// notes, sections of plain text, stand behind the verbs.
func Page(w io.Writer, app *kong.Application, examples map[string]string, version string, notes ...Section) error {
	p := &page{}
	p.line(`.TH %s 1 "" "%s %s" "User Commands"`, strings.ToUpper(app.Name), app.Name, roff(version))
	p.line(".SH NAME")
	p.line("%s \\- %s", app.Name, roff(app.Help))
	p.line(".SH SYNOPSIS")
	p.line(".B %s", app.Name)
	p.line(".I command")
	p.line("[\\fIflags\\fR]")
	p.line(".SH COMMANDS")
	verbs := verbsOf(app)
	for _, v := range verbs[1:] {
		if !v.leaf {
			continue
		}
		p.line(".SS %s %s", app.Name, roff(v.path))
		p.text(v.help)
		for _, a := range v.args {
			p.item(fmt.Sprintf("\\fI%s\\fR", roff(strings.Trim(a.Summary(), "<>[]"))), a.Help)
		}
		for _, f := range v.flags {
			p.item(tagOf(f), f.Help)
		}
		if example := examples[v.path]; example != "" {
			p.line(".PP")
			p.line("Example:")
			p.line(".PP")
			p.line(".RS 4")
			p.line(".nf")
			for line := range strings.SplitSeq(example, "\n") {
				p.text(line)
			}
			p.line(".fi")
			p.line(".RE")
		}
	}
	p.line(".SH FLAGS OF EVERY COMMAND")
	for _, f := range verbs[0].flags {
		p.item(tagOf(f), f.Help)
	}
	for _, n := range notes {
		p.line(".SH %s", roff(strings.ToUpper(n.Title)))
		for _, i := range n.Items {
			if i[0] == "" {
				p.text(i[1])
			} else {
				p.item("\\fB"+roff(i[0])+"\\fR", i[1])
			}
		}
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// A Section stands behind the commands. An item is a term and its text; text without a term is a paragraph.
type Section struct {
	Title string
	Items [][2]string
}

type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes a line of running text.
func (p *page) text(s string) { p.line("%s", roff(s)) }

func (p *page) item(tag, text string) {
	p.line(".TP")
	p.line("%s", tag)
	p.text(text)
}

// tagOf is a flag with the place of its value.
func tagOf(f *kong.Flag) string {
	tag := "\\fB" + roff("--"+f.Name) + "\\fR"
	if f.Short != 0 {
		tag = "\\fB" + roff("-"+string(f.Short)) + "\\fR, " + tag
	}
	if f.IsBool() {
		return tag
	}
	return tag + "=\\fI" + roff(strings.Trim(f.FormatPlaceHolder(), `"`)) + "\\fR"
}

// roff escapes text: a line that begins with a dot or an apostrophe would be a request, a bare hyphen is set as a dash, and what is not ASCII is read byte by
// byte.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}
