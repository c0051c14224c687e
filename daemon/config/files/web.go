package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/refitd/refitd/daemon/config/scalar"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// Web is what is looked at in an exporter-toolkit file before the toolkit reads it.
type Web struct {
	TLS struct {
		ClientAuth string `yaml:"client_auth_type"`
		CAFile     string `yaml:"client_ca_file"`
		KeyFile    string `yaml:"key_file"`
		CA         string `yaml:"client_ca"`
		Cert       string `yaml:"cert"`
		CertFile   string `yaml:"cert_file"`
	} `yaml:"tls_server_config"`
	Users map[string]string `yaml:"basic_auth_users"`
}

// ReadWeb reads an exporter-toolkit file. Its errors quote nothing of it.
func ReadWeb(path string) (f Web, err error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	err = yaml.Unmarshal(bytes.TrimPrefix(src, []byte(strictyaml.ByteOrderMark)), &f)
	if located := yaml.Error(nil); errors.As(err, &located) { // the error itself shows the lines around
		err = fmt.Errorf("%s: %s", path, strictyaml.Quoted.ReplaceAllString(located.GetMessage(), scalar.Redacted))
	}
	return f, err
}

// AsksForCertificates reports whether clients must have certificates.
func (f *Web) AsksForCertificates() bool { return f.TLS.ClientAuth == "RequireAndVerifyClientCert" }

// HasTLS reports whether the listener is encrypted.
func (f *Web) HasTLS() bool {
	return f.TLS.Cert != "" || f.TLS.CertFile != "" || f.TLS.KeyFile != ""
}

// Authenticates reports whether an exporter-toolkit file asks clients who they are. One that cannot be read is reported
// elsewhere.
func Authenticates(file string) bool {
	f, err := ReadWeb(file)
	return err != nil || len(f.Users) > 0 || f.AsksForCertificates()
}
