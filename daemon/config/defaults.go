package config

import _ "embed"

//go:embed defaults.yaml
var defaultsYAML string

// DefaultsYAML returns a configuration file with every key, its default and a comment. Keys without a default have an
// example value.
// The file passes the check that Load makes.
func DefaultsYAML() string { return defaultsYAML }
