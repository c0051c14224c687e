package main

import (
	"context"
	"errors"

	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/ingest/formats"
	"github.com/refitd/refitd/daemon/report"
)

// subjectFlags name a subject of a schema registry.
type subjectFlags struct {
	Registry string `placeholder:"URL"  help:"Schema registry of --subject, in place of kafka.schema_registry.url."`
	Subject  string `placeholder:"NAME" help:"Show what the newest schema of this subject has for each field of the models; exit code 1 if it has nothing, or another type, for one."`
}

// check emits for each model what the newest schema of a subject has for its fields, and reports whether it has
// nothing, or another type, for one of them.
func (f *subjectFlags) check(conf *config.Config, a *app) (loses bool, err error) {
	kafka := conf.Kafka
	if f.Registry != "" && f.Registry != kafka.SchemaRegistry.URL { // the password of one is not for another
		kafka.SchemaRegistry = config.SchemaRegistry{URL: f.Registry, Timeout: kafka.SchemaRegistry.Timeout}
	}
	if kafka.SchemaRegistry.URL == "" {
		return false, &report.ExitError{Code: report.ExitUsage, Key: "--registry",
			Err: errors.New("no registry to ask: give --registry a URL, or set kafka.schema_registry.url")}
	}
	for i := range conf.Models {
		out, err := formats.CheckSubject(context.Background(), &kafka, &conf.Models[i], f.Subject)
		if err != nil {
			return false, &report.ExitError{Code: report.ExitUsage, Err: err, Key: "--subject"}
		}
		loses = loses || len(out.Lost)+len(out.Unfit) > 0
		if err := a.out.Emit("subject", out); err != nil {
			return false, err
		}
	}
	return loses, nil
}
