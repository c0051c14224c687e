package config

import (
	"encoding/base64"
	"fmt"
	"github.com/refitd/refitd/daemon/config/scalar"
	"net/url"
	"strings"
)

// Notify says who gets notices of promotions, rejections and halts.
type Notify struct {
	URL        string `json:"url"`         // http or https, without user and password; empty for nobody
	SecretFile string `json:"secret_file"` // what requests are signed with, readable by its owner only

	key Secret
}

// Key returns what requests are signed with.
func (n *Notify) Key() []byte { return []byte(n.key.Reveal()) }

// minNotifyKey is how long a key has to be, in bytes: as Standard Webhooks 1.0.0 asks for.
const minNotifyKey = 24

// isPlainURL reports whether text is an http or https URL without user, password and fragment.
func isPlainURL(text string) bool {
	at, err := url.Parse(text)
	return err == nil && (at.Scheme == "http" || at.Scheme == "https") && at.Host != "" && at.User == nil &&
		at.Fragment == ""
}

// notify checks the address, and reads the key.
func (v *validator) notify(n *Notify, path string) {
	if n.URL == "" {
		if n.SecretFile != "" {
			v.bad(path+".url", "", "the http or https URL that notices are posted to, or leave secret_file out")
		}
		return
	}
	const want = "an http or https URL without user and password, such as https://hooks.example.org/refitd"
	if !isPlainURL(n.URL) {
		v.bad(path+".url", scalar.Redacted, want)
	}
	if n.SecretFile == "" {
		v.bad(path+".secret_file", "",
			"the path of a file that only its owner may read, with what notices are signed with")
		return
	}
	text := v.private(path+".secret_file", n.SecretFile)
	if text == "" {
		return // reported
	}
	if encoded, ok := strings.CutPrefix(text, "whsec_"); ok {
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			v.bad(path+".secret_file", n.SecretFile, "a file in which base64 follows whsec_")
			return
		}
		text = string(key)
	}
	if len(text) < minNotifyKey {
		v.bad(path+".secret_file", n.SecretFile,
			fmt.Sprintf("a file with %d bytes at least, or whsec_ and the base64 of as many", minNotifyKey))
		return
	}
	n.key = scalar.NewSecret(text)
}
