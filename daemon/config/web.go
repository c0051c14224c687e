package config

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/refitd/refitd/daemon/config/scalar"
	"github.com/refitd/refitd/daemon/config/strictyaml"
)

// Web is the HTTP surface.
type Web struct {
	ListenAddress string `json:"listen_address"`
	// exporter-toolkit file with TLS and authentication; needed for any address but loopback
	ConfigFile string `json:"config_file"`
	// second listener for probes, without a password: host:port, or unix: and a path; empty for none
	HealthAddress string `json:"health_address"`
	// caught_up: /-/ready is 503 while a model is far behind its log; empty: that is no reason
	ReadyWhen string `json:"ready_when"`
	// names that requests may be addressed to, in addition to localhost and addresses
	AllowedHosts []string `json:"allowed_hosts"`

	// what requests with a body hold at a time: bodies, what is decoded from them, answers
	MaxInflightBytes Size `json:"max_inflight_bytes"`
	// of the listener; beyond it, the one that has waited longest for its client is closed
	MaxConnections int `json:"max_connections"`

	noAuth bool // the command line allows any address without authentication
	later  bool // Validate judges the address once flags are applied
}

// Serve says what HTTP requests may ask of a model.
type Serve struct {
	MaxEvents int `json:"max_events"` // events of a score request, rows of an inference request
	MaxItems  int `json:"max_items"`  // k of a top list
	// version live scores with what was learned up to a second ago, which nobody signed or judged
	Live bool `json:"live"`
}

// ReadyCaughtUp is the value of Web.ReadyWhen under which a model that is far behind its log is not ready.
const ReadyCaughtUp = "caught_up"

// maxInlineBytes is the largest inline_max: it travels in one record, which few brokers take at this size.
const maxInlineBytes = 64 << 20

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// Validate returns an error that says what to write unless the listener has a usable address, and one that other
// machines reach asks for authentication. The file's own address was checked by Load; a flag that replaces it was not.
func (w *Web) Validate() error {
	if write := w.listenAdvice(); write != "" {
		return fmt.Errorf("config: listen address %q: write %s", w.ListenAddress, write)
	}
	return nil
}

// listenAdvice returns what to write instead of the listen address, or "".
func (w *Web) listenAdvice() string {
	if _, _, err := net.SplitHostPort(w.ListenAddress); err != nil {
		return "host:port, such as 127.0.0.1:9464"
	}
	switch {
	case isLoopback(w.ListenAddress) || w.noAuth:
		return ""
	case w.ConfigFile == "":
		return "a loopback address such as 127.0.0.1:9464, or set web.config_file to a file with authentication, or start " +
			"with --insecure-no-auth"
	case !authenticates(w.ConfigFile):
		return "a loopback address such as 127.0.0.1:9464, or give web.config_file basic_auth_users or " +
			"client_auth_type: RequireAndVerifyClientCert, or start with --insecure-no-auth"
	}
	return ""
}

// WebFile is what is looked at in an exporter-toolkit file before the toolkit reads it.
type WebFile struct {
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

// ReadWebFile reads an exporter-toolkit file. Its errors quote nothing of it.
func ReadWebFile(path string) (f WebFile, err error) {
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
func (f *WebFile) AsksForCertificates() bool { return f.TLS.ClientAuth == "RequireAndVerifyClientCert" }

// HasTLS reports whether the listener is encrypted.
func (f *WebFile) HasTLS() bool {
	return f.TLS.Cert != "" || f.TLS.CertFile != "" || f.TLS.KeyFile != ""
}

// authenticates reports whether an exporter-toolkit file asks clients who they are. One that cannot be read is reported
// elsewhere.
func authenticates(file string) bool {
	f, err := ReadWebFile(file)
	return err != nil || len(f.Users) > 0 || f.AsksForCertificates()
}

func (v *validator) web(w *Web) {
	if write := w.listenAdvice(); write != "" && !w.later {
		v.bad("web.listen_address", w.ListenAddress, write)
	}
	v.file("web.config_file", w.ConfigFile)
	if path, ok := strings.CutPrefix(w.HealthAddress, unixPrefix); ok {
		if path == "" || len(path) > maxSocketPath {
			v.bad("web.health_address", w.HealthAddress,
				fmt.Sprintf("unix: and a path of 1 to %d bytes", maxSocketPath))
		}
	} else if _, _, err := net.SplitHostPort(w.HealthAddress); w.HealthAddress != "" && err != nil {
		v.bad("web.health_address", w.HealthAddress, "host:port, such as 127.0.0.1:9465, or unix: and a path")
	}
	v.oneOf("web.ready_when", w.ReadyWhen, "", ReadyCaughtUp)
	v.size("web.max_inflight_bytes", w.MaxInflightBytes, 1<<20, 1<<40)
	v.whole("web.max_connections", w.MaxConnections, 100, 100_000)
	for i, host := range w.AllowedHosts {
		if host == "" || strings.ContainsAny(host, ":/*@ ") {
			v.bad(fmt.Sprintf("web.allowed_hosts[%d]", i), host, "a host name without port, such as refitd.example.org")
		}
	}
}

// tracing checks where traces go.
func (v *validator) tracing(t *Tracing) {
	if t.Endpoint != "" && !isPlainURL(t.Endpoint) {
		v.bad("tracing.endpoint", scalar.Redacted,
			"an http or https URL without user and password, such as http://localhost:4318")
	}
	v.oneOf("tracing.protocol", t.Protocol, TracingHTTP, TracingGRPC)
	v.duration("tracing.metrics_every", t.MetricsEvery, 0, time.Hour)
	switch every := t.MetricsEvery.Std(); {
	case every > 0 && every < time.Second:
		v.bad("tracing.metrics_every", t.MetricsEvery, "0s for none, or 1s to 1h")
	case every > 0 && t.Endpoint == "":
		v.bad("tracing.endpoint", "", "the collector that metrics are pushed to, or leave metrics_every out")
	}
	if !(t.SamplingFraction > 0 && t.SamplingFraction <= 1) {
		v.bad("tracing.sampling_fraction", t.SamplingFraction, "a number above 0, at most 1")
	}
}

// maxSocketPath is the room for the path of a Unix socket in Linux's sockaddr_un, less the zero byte at its end.
const maxSocketPath = 107

// serve checks the limits of requests, and the topic that announces versions.
func (v *validator) serve(m *Model, path string) {
	v.whole(strictyaml.Join(path, "serve.max_events"), m.Serve.MaxEvents, 1, 100_000)
	v.whole(strictyaml.Join(path, "serve.max_items"), m.Serve.MaxItems, 1, 100_000)
	topic := m.Publish.Topic
	if topic != "" && !isTopic(topic) {
		v.bad(strictyaml.Join(path, "publish.topic"), topic, "1 to 249 letters, digits, '.', '_' or '-', or leave it out")
	}
	v.size(strictyaml.Join(path, "publish.inline_max"), m.Publish.InlineMax, 0, maxInlineBytes)
	if m.Publish.InlineMax > 0 && topic == "" {
		v.bad(strictyaml.Join(path, "publish.inline_max"), m.Publish.InlineMax, "0, or set publish.topic")
	}
}
