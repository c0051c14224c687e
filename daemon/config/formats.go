package config

import (
	"crypto/tls"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config/files"
	"github.com/refitd/refitd/daemon/config/scalar"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// SchemaRegistry is where the schemas are by which records were written.
type SchemaRegistry struct {
	URL           string      `json:"url"` // http or https, without user and password; empty for none
	TLS           RegistryTLS `json:"tls"`
	BasicAuthFile string      `json:"basic_auth_file"` // user:password; readable by its owner only
	TokenFile     string      `json:"token_file"`      // a bearer token, in place of it
	Timeout       Duration    `json:"timeout"`         // of one request

	basicAuth, token *Secret // what the files have, behind pointers, since fmt shows fields without a capital
}

// Secrets returns user:password, or a bearer token, as the files have them; both may be empty.
func (r *SchemaRegistry) Secrets() (basicAuth, token string) {
	if r.basicAuth != nil {
		basicAuth = r.basicAuth.Reveal()
	}
	if r.token != nil {
		token = r.token.Reveal()
	}
	return basicAuth, token
}

// RegistryTLS is how an https URL is connected to.
type RegistryTLS struct {
	CAFile     string `json:"ca_file"`     // PEM; empty uses the system's certificates
	CertFile   string `json:"cert_file"`   // PEM client certificate, with KeyFile
	KeyFile    string `json:"key_file"`    // PEM, readable by its owner only
	ServerName string `json:"server_name"` // name to verify; empty uses the registry's host
}

// Client returns the client side of TLS, nil for an http URL.
func (r *SchemaRegistry) Client() (*tls.Config, error) {
	t := TLS{Enabled: strings.HasPrefix(r.URL, "https:"), CAFile: r.TLS.CAFile, CertFile: r.TLS.CertFile,
		KeyFile: r.TLS.KeyFile, ServerName: r.TLS.ServerName}
	return t.Client()
}

// IsFramed reports whether values or keys are of another format than JSON alone.
func (in *Input) IsFramed() bool {
	return in.Format != "" && in.Format != event.FormatJSON || in.KeyFormat != "" && in.KeyFormat != event.FormatJSON
}

// Formats returns the formats that values may have.
func (in *Input) Formats() []string {
	switch in.Format {
	case "":
		return []string{event.FormatJSON}
	case event.FormatAuto:
		return slices.DeleteFunc(slices.Clone(event.Formats), func(f string) bool { return f == event.FormatAuto })
	case event.FormatJSONSchema:
		return []string{event.FormatJSON, event.FormatJSONSchema} // a value without a frame is JSON
	}
	return []string{in.Format}
}

// Writer returns the schema of input.schema_file, nil without one.
func (in *Input) Writer() *event.Writer { return in.Written }

// registry checks kafka.schema_registry and reads its secrets.
func (v *validator) registry(r *SchemaRegistry) {
	v.hasRegistry = r.URL != ""
	const key = "kafka.schema_registry"
	if r.URL == "" {
		if r.BasicAuthFile != "" || r.TokenFile != "" || r.TLS != (RegistryTLS{}) {
			v.bad(key+".url", "", "the URL of the registry, or leave the other keys of kafka.schema_registry out")
		}
		return
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		v.bad(key+".url", r.URL, "an http or https URL without user, password and query, such as https://registry:8081")
		return
	}
	v.duration(key+".timeout", r.Timeout, 100*time.Millisecond, time.Minute)
	v.file(key+".tls.ca_file", r.TLS.CAFile)
	v.file(key+".tls.cert_file", r.TLS.CertFile)
	if r.TLS.KeyFile != "" {
		v.private(key+".tls.key_file", r.TLS.KeyFile)
	}
	if (r.TLS.CertFile == "") != (r.TLS.KeyFile == "") {
		v.bad(key+".tls.key_file", r.TLS.KeyFile, "cert_file and key_file together")
	}
	if t := r.TLS; u.Scheme == "http" && (t.CAFile != "" || t.CertFile != "" || t.ServerName != "") {
		v.bad(key+".url", r.URL, "an https URL, or leave kafka.schema_registry.tls out")
	}
	if r.BasicAuthFile != "" && r.TokenFile != "" {
		v.bad(key+".token_file", r.TokenFile, "either basic_auth_file or token_file, not both")
		return
	}
	if (r.BasicAuthFile != "" || r.TokenFile != "") && u.Scheme == "http" && !isLoopback(u.Host) {
		v.bad(key+".url", r.URL, "an https URL: a password is not sent to another machine in the clear")
	}
	if r.BasicAuthFile != "" {
		text := v.private(key+".basic_auth_file", r.BasicAuthFile)
		if text != "" && !strings.Contains(text, ":") {
			v.bad(key+".basic_auth_file", r.BasicAuthFile, "a file with user:password")
		}
		r.basicAuth = new(scalar.NewSecret(text))
	}
	if r.TokenFile != "" {
		r.token = new(scalar.NewSecret(v.private(key+".token_file", r.TokenFile)))
	}
}

// formats checks the formats of values and keys, and reads input.schema_file.
func (v *validator) formats(in *Input, path string) {
	v.oneOf(path+".format", in.Format, event.Formats...)
	if in.KeyFormat != "" && !slices.Contains(event.Formats, in.KeyFormat) {
		v.oneOf(path+".key_format", in.KeyFormat, event.Formats...)
		return
	}
	if v.allow.Offline && (in.Written != nil || in.FromRegistry) {
		return // of a stored model, which has what the files said
	}
	in.FromRegistry, in.Written = v.hasRegistry && in.IsFramed(), nil
	switch {
	case in.SchemaFile != "" && in.IsFramed():
		in.Written = v.schemaFile(in.SchemaFile, path+".schema_file")
	case in.SchemaFile != "":
		v.bad(path+".schema_file", in.SchemaFile, "a format other than json with it, such as input.format: avro")
	case in.IsFramed() && !v.hasRegistry && !v.allow.Offline && (in.Format != event.FormatJSONSchema):
		v.bad(path+".format", in.Format,
			"kafka.schema_registry.url with it, or input.schema_file: without either no schema is known")
	}
	if in.KeyFormat != "" && in.KeyFormat != event.FormatJSON && !v.hasRegistry && !v.allow.Offline {
		v.bad(path+".key_format", in.KeyFormat, "kafka.schema_registry.url with it: input.schema_file is of values alone")
	}
	if w := in.Written; w != nil && in.Format != event.FormatAuto && in.Format != w.Format {
		v.bad(path+".schema_file", in.SchemaFile, "a schema of input.format, which is "+in.Format)
	}
}

// schemaFile reads a schema, with the files next to it that it imports.
func (v *validator) schemaFile(file, key string) *event.Writer {
	w, write := files.Writer(file)
	if w == nil {
		v.bad(key, file, write)
	}
	return w
}

// OpenRegistry checks a registry that is not of a file and reads its secrets. The problem, nil for none, names the key
// below kafka.schema_registry.
func OpenRegistry(r *SchemaRegistry) *strictyaml.Problem {
	if r.Timeout == 0 {
		r.Timeout = Duration(defaultRegistryTimeout)
	}
	v := &validator{Decoder: strictyaml.NewDecoder(reflect.TypeFor[Config](), nil)}
	v.registry(r)
	if len(v.Problems) == 0 {
		return nil
	}
	p := v.Problems[0]
	p.Key = strings.TrimPrefix(p.Key, "kafka.schema_registry.")
	return &p
}

// ReadSchemaFile reads a schema as input.schema_file is read, or returns what is wrong with the file.
func ReadSchemaFile(file string) (*event.Writer, *strictyaml.Problem) {
	v := &validator{Decoder: strictyaml.NewDecoder(reflect.TypeFor[Config](), nil)}
	w := v.schemaFile(file, "input.schema_file")
	if len(v.Problems) > 0 {
		return nil, &v.Problems[0]
	}
	return w, nil
}
