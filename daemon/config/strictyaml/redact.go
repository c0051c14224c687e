package strictyaml

import (
	"github.com/refitd/refitd/daemon/config/scalar"
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
	// PrivateKey matches a key in the place of its file's name.
	PrivateKey = regexp.MustCompile(`-----BEGIN`)
	// signIn matches the section of the sign-in, all of which is hidden if there is something strange in it.
	signIn = regexp.MustCompile(`sasl["']?\s*[:={]?`)
	// sectionKey matches the first key of a line, which ends what is hidden if it is one of the top of the file.
	sectionKey = regexp.MustCompile(`^\w+`)
	// leadingKey matches the first key of a line up to its colon.
	leadingKey = regexp.MustCompile(`^[\s{-]*["']?([\w.-]+)["']?\s*:`)
	// UserInfo matches the name and password of a URL.
	UserInfo = regexp.MustCompile(`[^\s"'\[,/@]*:[^\s"'@]*@`)
	// plainKey matches the beginning of a key that is one.
	plainKey = regexp.MustCompile(`^[\w.-]*`)
	// passwordKey matches the beginning of a key that is followed by the password, where the parser dropped a tab
	// between them.
	passwordKey = regexp.MustCompile(`(?i)^[\w.-]*?passw(or)?d?`)
	// variableName matches what environments have as names by convention; other text in ${} may be the secret itself.
	variableName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
	// Quoted matches what the parser of YAML quotes of a file.
	Quoted = regexp.MustCompile(`".*"`)
)

// wholeLine and nothing are, in place of an offset, how much of a line is hidden.
const (
	wholeLine = -1 // but for a known key
	nothing   = -2 // but for names and passwords in URLs
)

// hide returns for each line of a file from where on it is hidden. strange says that the sign-in has a key that does
// not exist, or that the file cannot be read.
func hide(lines []string, root reflect.Type, strange bool) []int {
	from := make([]int, len(lines))
	top, hiding := Keys(root), false
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
func visible(line string, from int, named string, root reflect.Type) string {
	switch from {
	case nothing:
		return UserInfo.ReplaceAllString(line, scalar.Redacted+"@")
	case wholeLine:
		return keyAlone(line, named, root)
	}
	return UserInfo.ReplaceAllString(strings.TrimRight(line[:from], " "), scalar.Redacted+"@") + " " + scalar.Redacted
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
	if found := PrivateKey.FindStringIndex(line); found != nil {
		note(found[0])
	}
	if found := signIn.FindStringIndex(line); found != nil && strange {
		note(found[1])
	}
	return at
}

// keyAlone returns a line with its key, if that is a known one or the one named, and no more.
func keyAlone(line, named string, root reflect.Type) string {
	found := leadingKey.FindStringSubmatchIndex(line)
	if found != nil {
		if key := line[found[2]:found[3]]; key == named || findKey(root, key, "") != "" {
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
func isStrangeSignIn(p Problem, root reflect.Type) bool {
	path, section := secretSection(root, "")
	if section == nil {
		return false
	}
	key, ok := strings.CutPrefix(p.Key, path)
	return ok && !slices.Contains(Keys(section), strings.TrimPrefix(key, "."))
}

// secretSection returns the first struct within t that has a secret, and its path; nil if it has none.
func secretSection(t reflect.Type, path string) (string, reflect.Type) {
	if t.Kind() != reflect.Struct {
		return "", nil
	}
	if hasSecret(t) {
		return path, t
	}
	for i, name := range Keys(t) {
		if at, section := secretSection(t.Field(i).Type, Join(path, name)); section != nil {
			return at, section
		}
	}
	return "", nil
}

// hasSecret reports whether a struct has a key whose value is a secret.
func hasSecret(t reflect.Type) bool {
	for i := range Keys(t) {
		if t.Field(i).Type == reflect.TypeFor[scalar.Secret]() {
			return true
		}
	}
	return false
}
