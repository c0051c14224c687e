package main

import (
	"errors"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// registryFlags name a schema registry and say how to sign in, as kafka.schema_registry of a configuration does.
type registryFlags struct {
	Registry      string `placeholder:"URL"  help:"Schema registry of the records."`
	BasicAuthFile string `placeholder:"FILE" help:"File with user:password for --registry, which only its owner may read."       name:"registry-basic-auth-file"`
	TokenFile     string `placeholder:"FILE" help:"File with a bearer token for --registry, which only its owner may read."      name:"registry-token-file"`
	CAFile        string `placeholder:"FILE" help:"Certificates in PEM that --registry is trusted by; without, the system's."    name:"registry-ca-file"`
	CertFile      string `placeholder:"FILE" help:"Client certificate in PEM for --registry, with --registry-key-file."          name:"registry-cert-file"`
	KeyFile       string `placeholder:"FILE" help:"Key of the client certificate, in PEM, which only its owner may read."        name:"registry-key-file"`
	ServerName    string `placeholder:"NAME" help:"Name in the certificate of --registry, where it is not the host of the URL." name:"registry-server-name"`
}

// settings returns what the flags say, with the secrets read; no URL where --registry is not given. The error has exit
// code 2.
func (f *registryFlags) settings() (config.SchemaRegistry, error) {
	r := config.SchemaRegistry{URL: f.Registry, BasicAuthFile: f.BasicAuthFile, TokenFile: f.TokenFile,
		TLS: config.RegistryTLS{CAFile: f.CAFile, CertFile: f.CertFile, KeyFile: f.KeyFile, ServerName: f.ServerName}}
	p := config.OpenRegistry(&r)
	if p == nil {
		return r, nil
	}
	flag := "--registry"
	if p.Key != "url" {
		flag += "-" + strings.NewReplacer("tls.", "", "_", "-").Replace(p.Key)
	}
	return r, &report.ExitError{Code: report.ExitUsage, Key: flag, Err: errors.New(flag + " " + p.Message)}
}

// schemaFile reads the schema of --schema-file. The error has exit code 2.
func schemaFile(path string) (*event.Writer, error) {
	if path == "" {
		return nil, nil
	}
	w, p := config.ReadSchemaFile(path)
	if p != nil {
		return nil, &report.ExitError{Code: report.ExitUsage, Key: "--schema-file", Path: path,
			Err: errors.New("--schema-file " + p.Message)}
	}
	return w, nil
}
