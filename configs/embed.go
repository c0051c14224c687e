// Package configs embeds, of the files in this folder, those that the program prints or serves, and those that tests of
// other packages compare it with.
package configs

import _ "embed"

// Rules are the Prometheus rules that refitd ships.
//
//go:embed refitd.rules.yml
var Rules string

// Metrics lists the metrics of this build by section. Tests make metrics.md from it and compare it with a running
// daemon.
//
//go:embed metrics.json
var Metrics string

// OpenAPI describes everything that the daemon serves over HTTP. A test makes it from web.Routes.
//
//go:embed openapi.json
var OpenAPI string

// Runbook says of each alert of Rules what it means and what to do.
//
//go:embed docs/runbook.md
var Runbook string

// ConfigSchema is the JSON Schema of the configuration file. A test makes it from package daemon/config.
//
//go:embed config.schema.json
var ConfigSchema string
