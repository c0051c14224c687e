package config

import (
	"github.com/refitd/refitd/daemon/config/scalar"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// What is shown of a file must not show a secret, whatever shape it was given: it may be a list, a block of several
// lines, a piece of text that is no YAML, or stand behind a key that was misspelt. So it is not values that are hidden
// but places: from a key that may have a secret on, to the end of its section, nothing is shown but known keys.
var (
	// secretKey matches a key that may have a secret, misspelt ones and those without their colon included. Those that
	// end in _file have a path.
	secretKey = regexp.MustCompile(`(?i)[\w.-]*(pas|pwd|word|secr|token|cred)[\w.-]*["']?\s*[:=]|passw[\w.-]*`)
	// contentsKey matches a key of a path, behind which something else begins.
	contentsKey = regexp.MustCompile(`_file["']?\s*:\s*([|>\[{&*!]|$)`)
	// privateKey matches a key in the place of its file's name.
	privateKey = regexp.MustCompile(`-----BEGIN`)
	// signIn matches the section of the sign-in, all of which is hidden if there is something strange in it.
	signIn = regexp.MustCompile(`sasl["']?\s*[:={]?`)
	// sectionKey matches the first key of a line, which ends what is hidden if it is one of the top of the file.
	sectionKey = regexp.MustCompile(`^\w+`)
	// leadingKey matches the first key of a line up to its colon.
	leadingKey = regexp.MustCompile(`^[\s{-]*["']?([\w.-]+)["']?\s*:`)
	// userInfo matches the name and password of a URL.
	userInfo = regexp.MustCompile(`[^\s"'\[,/@]*:[^\s"'@]*@`)
	// plainKey matches the beginning of a key that is one.
	plainKey = regexp.MustCompile(`^[\w.-]*`)
	// passwordKey matches the beginning of a key that is followed by the password, where the parser dropped a tab
	// between them.
	passwordKey = regexp.MustCompile(`(?i)^[\w.-]*?passw(or)?d?`)
	// variableName matches what environments have as names by convention; other text in ${} may be the secret itself.
	variableName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	// quoted matches what the parser of YAML quotes of a file.
	quoted = regexp.MustCompile(`".*"`)
)

// wholeLine and nothing are, in place of an offset, how much of a line is hidden.
const (
	wholeLine = -1 // but for a known key
	nothing   = -2 // but for names and passwords in URLs
)

// hide returns for each line of a file from where on it is hidden. strange says that the sign-in has a key that does
// not exist, or that the file cannot be read.
func hide(lines []string, strange bool) []int {
	from := make([]int, len(lines))
	top, hiding := keys(reflect.TypeFor[Config]()), false
	for i, line := range lines {
		if hiding && slices.Contains(top, sectionKey.FindString(line)) {
			hiding = false
		}
		from[i] = wholeLine
		if !hiding {
			from[i] = secretStart(line, strange)
			hiding = from[i] >= 0
		}
	}
	return from
}

// visible returns a line of which everything from an offset on is hidden. named is a key that may be shown, for it is
// in the message.
func visible(line string, from int, named string) string {
	switch from {
	case nothing:
		return userInfo.ReplaceAllString(line, scalar.Redacted+"@")
	case wholeLine:
		return keyAlone(line, named)
	}
	return userInfo.ReplaceAllString(strings.TrimRight(line[:from], " "), scalar.Redacted+"@") + " " + scalar.Redacted
}

// secretStart returns where in a line that begins which may be a secret, behind its key, or nothing.
func secretStart(line string, strange bool) int {
	at := nothing
	note := func(end int) {
		if at == nothing || end < at {
			at = end
		}
	}
	for _, found := range secretKey.FindAllStringIndex(line, -1) {
		if !strings.Contains(line[found[0]:found[1]], "_file") {
			note(found[1])
		}
	}
	if found := contentsKey.FindStringSubmatchIndex(line); found != nil {
		note(found[2])
	}
	if found := privateKey.FindStringIndex(line); found != nil {
		note(found[0])
	}
	if found := signIn.FindStringIndex(line); found != nil && strange {
		note(found[1])
	}
	return at
}

// keyAlone returns a line with its key, if that is a known one or the one named, and no more.
func keyAlone(line, named string) string {
	found := leadingKey.FindStringSubmatchIndex(line)
	if found != nil {
		if key := line[found[2]:found[3]]; key == named || findKey(reflect.TypeFor[Config](), key, "") != "" {
			return line[:found[1]] + " " + scalar.Redacted
		}
	}
	return line[:len(line)-len(strings.TrimLeft(line, " "))] + scalar.Redacted
}

// shownKey returns a key as messages show it: what follows a name, such as a secret whose colon was left out, is
// hidden.
func shownKey(key string) string {
	name := plainKey.FindString(key)
	if word := passwordKey.FindString(name); word != "" {
		name = word
	}
	if name != key {
		return name + scalar.Redacted
	}
	return key
}

// isStrangeSignIn reports whether a problem is about the sign-in as a whole, or about a key of it that does not exist:
// it may be a password.
func isStrangeSignIn(p Problem) bool {
	key, ok := strings.CutPrefix(p.Key, "kafka.sasl")
	return ok && !slices.Contains(keys(reflect.TypeFor[SASL]()), strings.TrimPrefix(key, "."))
}

// contents reports a value that is not the path of a file but what should be in it, without showing it.
func (v *validator) contents(path, name string) bool {
	if strings.ContainsAny(name, "\r\n") || privateKey.MatchString(name) {
		v.add(v.locate(path), path, "has several lines or a key itself: write the path of a file that holds it", "")
		return true
	}
	return false
}

// private reads a file with a secret in it and returns its text without the last line end.
func (v *validator) private(path, name string) string {
	if v.contents(path, name) {
		return ""
	}
	if err := CheckPrivate(name); err != nil {
		v.bad(path, name, "the path of a file that only its owner may read ("+err.Error()+")")
		return ""
	}
	text, err := os.ReadFile(name)
	if err != nil {
		v.bad(path, name, "the path of a readable file ("+err.Error()+")")
	}
	return strings.TrimRight(strings.TrimPrefix(string(text), byteOrderMark), "\r\n")
}
