// Package config reads refitd's one configuration file: strict YAML, every mistake reported at once with its place,
// secrets kept out of every kind of output. It also computes the memory that a configuration may use.
package config

import (
	"bytes"
	"context"
	"fmt"
	"github.com/refitd/refitd/daemon/config/strictyaml"
	"github.com/refitd/refitd/snapshot/objects"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// MaxFileBytes bounds the configuration file.
const MaxFileBytes = 3 << 19

// SchemaID is the address of the JSON Schema of the configuration file, its $id, for editors.
const SchemaID = "https://raw.githubusercontent.com/refitd/refitd/main/configs/config.schema.json"

// Config is a whole configuration file with every default filled in and every path made absolute or relative to the
// working directory. It is read-only once loaded.
type Config struct {
	Kafka        Kafka   `json:"kafka"`
	Storage      Storage `json:"storage"`
	Web          Web     `json:"web"`
	Tracing      Tracing `json:"tracing"`
	MemoryBudget Size    `json:"memory_budget"` // largest Memory total allowed; 0 computes and prints the total only
	Role         string  `json:"role"`          // all, shard or trainer
	Shard        Shard   `json:"shard"`         // of a shard or trainer
	Models       []Model `json:"models"`        // at least one

	file      string
	directory string
}

// Kafka says how to reach the brokers.
type Kafka struct {
	BootstrapServers []string `json:"bootstrap_servers"` // host:port, at least one
	GroupID          string   `json:"group_id"`          // offsets are committed to this group for lag tools only
	ClientID         string   `json:"client_id"`
	TLS              TLS      `json:"tls"`
	SASL             SASL     `json:"sasl"`
	// where the schemas of records are that are not JSON
	SchemaRegistry SchemaRegistry `json:"schema_registry"`
	// how long the broker may hold a fetch that has nothing to return
	FetchMaxWait           Duration `json:"fetch_max_wait"`
	MaxPartitionFetchBytes Size     `json:"max_partition_fetch_bytes"` // answer bytes for one partition

	// Dial connects to brokers, without encryption; nil is the system's TCP, with TLS as configured. It is no key:
	// simulations set it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-" yaml:"-"`
	// Refused is called where an answer to a fetch is refused because a second one on another connection contradicts
	// it; nil for nobody. It is no key:
	// the daemon counts and logs them, but for those of package consumer, which does so itself.
	Refused func(topic string, partition int32, reason string) `json:"-" yaml:"-"`
}

// TLS encrypts the connections to the brokers.
type TLS struct {
	Enabled    bool   `json:"enabled"`
	CAFile     string `json:"ca_file"`     // PEM; empty uses the system's certificates
	CertFile   string `json:"cert_file"`   // PEM client certificate, with KeyFile
	KeyFile    string `json:"key_file"`    // PEM, readable by its owner only
	ServerName string `json:"server_name"` // name to verify; empty uses the broker's host
}

// Storage is the state on this machine, one directory per model below Path.
type Storage struct {
	Path         string `json:"path"`
	MinFreeBytes Size   `json:"min_free_bytes"` // reading pauses while the file system has less free space than this
	AllowNetwork bool   `json:"allow_network"`  // a state on NFS, SMB, FUSE and the like is refused otherwise
}

// Tracing says where spans of batches, refits, the gate and publications go, and metrics if they are pushed.
type Tracing struct {
	// http or https URL that takes OTLP, without user and password; empty for none
	Endpoint         string  `json:"endpoint"`
	Protocol         string  `json:"protocol"`          // http or grpc
	SamplingFraction float64 `json:"sampling_fraction"` // of batches, refits and updates that have a trace, in (0, 1]
	// time between two pushes of the metrics to the same collector; 0 for none
	MetricsEvery Duration `json:"metrics_every"`
}

// The protocols of Tracing: protobuf in requests of HTTP/1.1 or 2, or calls of gRPC.
const (
	TracingHTTP = "http"
	TracingGRPC = "grpc"
)

// Default returns a configuration without models: every key at its default.
func Default() *Config {
	return &Config{
		Kafka: Kafka{
			ClientID:               "refitd",
			SASL:                   SASL{Mechanism: "none", Scopes: []string{}, Extensions: []string{}},
			SchemaRegistry:         SchemaRegistry{Timeout: Duration(defaultRegistryTimeout)},
			FetchMaxWait:           Duration(defaultFetchMaxWait),
			MaxPartitionFetchBytes: 1 << 20, // Kafka's own max.partition.fetch.bytes
		},
		Storage: Storage{Path: "state", MinFreeBytes: 512 << 20},
		Tracing: Tracing{Protocol: TracingHTTP, SamplingFraction: 1},
		Role:    RoleAll,
		Web: Web{
			ListenAddress:    "127.0.0.1:9464",
			AllowedHosts:     []string{},
			MaxInflightBytes: 64 << 20,
			MaxConnections:   512,
		},
	}
}

// Exceptions are what the command line allows against the rules for files, and what it adds to them.
type Exceptions struct {
	NoAuth bool // any address may be listened on without authentication
	// Listen allows any address: flags replace it or the file with authentication, with which Web.Validate is called, or
	// the verb does not listen.
	Listen bool
	// Classes of a multiclass or multilabel model may be left out: they are those of the file that a model is fitted
	// to. A daemon decodes, and has to know the size of its model, before it has seen any.
	Classes bool
	// Offline allows a file without brokers, group and topics, which verbs over files have no use for.
	Offline bool
	// Memory returns what a configuration may use, which memory_budget has to suffice for. Nil leaves that unchecked.
	Memory func(*Config) Memory
}

// Load reads and validates the file at path. The error is a *FileError if the file could be read but is wrong; it then
// lists every mistake found. Relative paths in the file are relative to the file.
func Load(path string) (*Config, error) { return LoadWith(path, Exceptions{}) }

// LoadWith is Load with exceptions.
func LoadWith(path string, allow Exceptions) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("config: read %s: %w", path, err)
	}
	return parseWith(path, src, os.LookupEnv, allow)
}

// Parse is Load for a file's bytes; name is used in messages and its directory for relative paths. lookupEnv resolves
// ${NAME} in secrets.
func Parse(name string, src []byte, lookupEnv func(string) (string, bool)) (*Config, error) {
	return parseWith(name, src, lookupEnv, Exceptions{})
}

func parseWith(name string, src []byte, lookupEnv func(string) (string, bool), allow Exceptions) (*Config, error) {
	src = bytes.TrimPrefix(src, []byte(strictyaml.ByteOrderMark))
	c := Default()
	c.Web.noAuth, c.Web.later = allow.NoAuth, allow.Listen
	c.file, c.directory = name, filepath.Dir(name)
	d := strictyaml.NewDecoder(reflect.TypeFor[Config](), lookupEnv)
	fail := func(problems []strictyaml.Problem) error {
		return d.FileError(name, src, problems)
	}
	if len(src) > MaxFileBytes {
		return nil, fail(
			[]strictyaml.Problem{{Line: 1, Column: 1, Message: fmt.Sprintf("the file is larger than %d bytes", MaxFileBytes)}})
	}
	d.Decode(src, c)
	if !d.Parsed {
		return nil, fail(d.Problems)
	}
	c.resolvePaths()
	c.Shard.settle()
	for i := range c.Models {
		m := &c.Models[i]
		m.Resolve()
		m.Shard = c.Shard.of(c.Role, m.Name)
	}
	v := &validator{Decoder: d, allow: allow}
	v.config(c)
	if len(d.Problems) > 0 {
		return nil, fail(d.Sorted())
	}
	return c, nil
}

// Model returns the model of that name. An empty name means the only model; the error lists the names there are.
func (c *Config) Model(name string) (*Model, error) {
	if name == "" && len(c.Models) == 1 {
		return &c.Models[0], nil
	}
	names := make([]string, len(c.Models))
	for i := range c.Models {
		if c.Models[i].Name == name {
			return &c.Models[i], nil
		}
		names[i] = c.Models[i].Name
	}
	if name == "" {
		return nil, fmt.Errorf("config: %s has %d models: name one of %q with --model", c.file, len(names), names)
	}
	return nil, fmt.Errorf("config: %s has no model %q: --model must be one of %q", c.file, name, names)
}

// StatePath returns the state directory of a model.
func (c *Config) StatePath(m *Model) string { return filepath.Join(c.Storage.Path, m.Name) }

// ShardPath returns where a process of a group has the states of a shard, below Storage.Path.
func (c *Config) ShardPath(number int) string {
	return filepath.Join(c.Storage.Path, fmt.Sprintf("shard-%d", number))
}

// OfShard returns the configuration of one of the shards that a group gives a process: with its number, and with a
// separate state.
func (c *Config) OfShard(number int) *Config {
	own := *c
	own.Storage.Path, own.Shard, own.Models = c.ShardPath(number), c.Shard.At(number), slices.Clone(c.Models)
	for i := range own.Models {
		own.Models[i].Shard = own.Models[i].Shard.At(number)
	}
	return &own
}

// File returns the path the configuration was loaded from.
func (c *Config) File() string { return c.file }

func (c *Config) resolvePaths() {
	paths := []*string{&c.Kafka.TLS.CAFile, &c.Kafka.TLS.CertFile, &c.Kafka.TLS.KeyFile, &c.Kafka.SASL.PasswordFile,
		&c.Kafka.SASL.TokenFile, &c.Kafka.SASL.ClientSecretFile,
		&c.Kafka.SchemaRegistry.TLS.CAFile, &c.Kafka.SchemaRegistry.TLS.CertFile, &c.Kafka.SchemaRegistry.TLS.KeyFile,
		&c.Kafka.SchemaRegistry.BasicAuthFile, &c.Kafka.SchemaRegistry.TokenFile,
		&c.Storage.Path, &c.Web.ConfigFile}
	for i := range c.Models {
		paths = append(paths, &c.Models[i].Input.SchemaFile,
			&c.Models[i].Publish.SigningKeyFile, &c.Models[i].Publish.OMSKeyFile, &c.Models[i].Train.Cost,
			&c.Models[i].Notify.SecretFile, &c.Models[i].Publish.Vectors.PasswordFile)
		for j := range c.Models[i].Publish.TrustedKeys {
			paths = append(paths, &c.Models[i].Publish.TrustedKeys[j])
		}
	}
	if socket, ok := strings.CutPrefix(c.Web.HealthAddress, unixPrefix); ok && socket != "" && !filepath.IsAbs(socket) {
		c.Web.HealthAddress = unixPrefix + filepath.Join(c.directory, socket)
	}
	for i := range c.Models {
		if p := &c.Models[i].Publish; objects.IsURL(p.Store) {
			p.Objects, p.Store = p.Store, c.Storage.Path+".objects"
		}
		paths = append(paths, &c.Models[i].Publish.Store)
	}
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(c.directory, *p)
		}
	}
}
