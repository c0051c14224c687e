// Package web is the daemon's HTTP surface: health, readiness and metrics, the published models with their files,
// scores over HTTP in the daemon's own form and in that of the Open Inference Protocol, and a status page. It reads the
// snapshot store and asks the daemon; it neither learns nor publishes. Nothing here can stop ingestion: a request that
// costs too much is refused.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config/files"
	"github.com/refitd/refitd/daemon/curves"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/statuspage"
	"github.com/refitd/refitd/snapshot"
	watchmetrics "github.com/refitd/refitd/snapshot/metrics"
	"github.com/refitd/refitd/snapshot/publish"
	"google.golang.org/grpc"
)

// Limits of the listeners. A client that is slower or wants more is cut off or refused.
const (
	headerTimeout = 5 * time.Second  // for the request line and headers, so also for a connection that says nothing
	writeTimeout  = 60 * time.Second // for the answer; downloads and long polls move it on as they go
	idleTimeout   = 60 * time.Second // between two requests
	closeTimeout  = 5 * time.Second  // for requests under way when the daemon stops
	maxHeader     = 16 << 10         // bytes of request line and headers
	maxHealth     = 32               // connections of the health listener
)

// Daemon is what the surface asks of the running daemon. Its methods may be called from any goroutine.
type Daemon interface {
	// Status is what the status page and /-/ready show.
	Status() statuspage.Status
}

// Lifecycle changes the running daemon. Its methods may be called from any goroutine.
type Lifecycle interface {
	// Reload takes up the configuration file anew, all of it or nothing.
	Reload(ctx context.Context) error
	// Refit asks for a refit of a model as soon as one can begin, whatever the schedule.
	Refit(model string) error
}

// Model is one model of the surface.
type Model struct {
	Name  string
	Dir   string         // of the snapshot store
	Store *publish.Store // of that directory, with what it signs with
	// Derive, if not nil, returns what fills the derived fields that an event of a version's schema lacks, nil where
	// that cannot be done. What it returns is called from any goroutine.
	Derive func(*snapshot.Schema) func(*event.Event)
	// Live, if not nil, returns what was learned up to about now as a model, whose manifest says when it was taken. It
	// returns nil where serve.live is off, snapshot.ErrNotFound before the first version, and a HeldBackError where the
	// champion has to answer in place of it. It is called from any goroutine, for every request for it.
	Live func() (*snapshot.Model, error)
	// Curves, if not nil, are how the model has done over time.
	Curves *curves.Ring
	// Calibration, if not nil, compares what was predicted over the window with what came. It is called from any
	// goroutine.
	Calibration func() report.Calibration
	// Rejected, if not nil, returns the last records that were no events, newest first. It is called from any goroutine.
	Rejected func() []statuspage.RejectedRecord
}

// The bounds of Options without a value.
const (
	DefaultMaxInflightBytes = 64 << 20
	DefaultMaxConnections   = 512
)

// Options of a Server. Everything but Lifecycle, Profiling, Limits, AllowedHosts and the two maxima is required.
type Options struct {
	Daemon   Daemon
	Registry *prometheus.Registry
	Models   []Model
	// Limits returns the bounds of requests for a model; nil takes DefaultLimits.
	Limits func(model string) Limits
	// Lifecycle, if not nil, is offered by the endpoints that change something. They are refused without it.
	Lifecycle Lifecycle
	// Profiling serves what net/http/pprof has at /debug/pprof/: where the process spends its time and memory.
	Profiling bool
	// ConfigFile is the exporter-toolkit's file with TLS and authentication; empty serves plain HTTP to everybody.
	ConfigFile string
	// AllowedHosts are host names that requests may be addressed to, in addition to localhost and addresses.
	AllowedHosts []string
	// MaxInflightBytes bounds what requests with a body hold at a time: bodies, what is decoded from them, answers. 0
	// takes DefaultMaxInflightBytes.
	MaxInflightBytes int64
	// MaxConnections bounds the connections of Serve; 0 takes DefaultMaxConnections.
	MaxConnections int
	// Version of the program, for the Open Inference Protocol.
	Version string
	Log     *slog.Logger
}

// Server serves the surface. Make it with New, call Serve once. It is one type: a method for each endpoint.
type Server struct {
	Options
	handler   http.Handler
	caches    map[string]*modelCache
	metrics   *metrics
	scrapes   http.Handler
	grpc      *grpc.Server
	budget    *request.Budget
	places    *request.Places
	downloads chan struct{} // a place for each file on its way
	polls     chan struct{} // a place for each long poll
	listeners chan struct{} // a place for each stream
	looks     chan struct{} // the one place for what costs the processor up to seconds

	looking sync.Mutex // guards what follows; held while the models are looked at
	seen    *statuspage.Status
	looked  time.Time
}

// New returns a server and registers its metrics.
func New(o Options) *Server {
	if o.Limits == nil {
		o.Limits = func(string) Limits { return DefaultLimits() }
	}
	b := request.NewBudget(cmp.Or(o.MaxInflightBytes, DefaultMaxInflightBytes))
	p := request.NewPlaces(cmp.Or(o.MaxConnections, DefaultMaxConnections), newConnectionMetrics(o.Registry))
	s := &Server{
		Options:   o,
		caches:    make(map[string]*modelCache),
		metrics:   newMetrics(o.Registry, b, p),
		budget:    b,
		places:    p,
		downloads: make(chan struct{}, maxDownloads),
		polls:     make(chan struct{}, maxPolls),
		listeners: make(chan struct{}, maxListeners),
		looks:     make(chan struct{}, 1),
	}
	for _, m := range o.Models {
		s.caches[m.Name] = newModelCache(m, o.Log)
		s.metrics.add(m.Name)
		o.Registry.MustRegister(watchmetrics.New(s.caches[m.Name].status, prometheus.Labels{"model": m.Name}))
	}
	s.scrapes = promhttp.HandlerFor(
		o.Registry,
		promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: writeTimeout / 2,
			EnableOpenMetrics: true},
	)
	s.grpc = newGRPC(s)
	s.handler = s.guard(s.mux())
	return s
}

// ServeHTTP answers one request, after everything but TLS and authentication.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Check returns an error unless file is a usable exporter-toolkit file; an empty name is one. Asking for client
// certificates without saying who signs them is refused: any authority that the system trusts would do. So is a key
// that other users may read.
func Check(file string) error {
	if err := toolkit.Validate(file); err != nil || file == "" {
		return withoutValues(err)
	}
	c, err := files.ReadWeb(file)
	if err != nil {
		return err
	}
	if c.AsksForCertificates() && c.TLS.CAFile == "" && c.TLS.CA == "" {
		return errors.New("tls_server_config: client_auth_type RequireAndVerifyClientCert needs client_ca_file")
	}
	if key := c.TLS.KeyFile; key != "" {
		if !filepath.IsAbs(key) {
			key = filepath.Join(filepath.Dir(file), key)
		}
		if err := files.CheckPrivate(key); err != nil {
			return fmt.Errorf("tls_server_config: key_file: %w", err)
		}
	}
	return nil
}

// Serve serves the surface until ctx is done, keeps the champions of all models at hand, and returns nil once every
// request has ended.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, cache := range s.caches {
		unfollow, err := cache.follow()
		if err != nil {
			return fmt.Errorf("web: %w", err)
		}
		defer unfollow()
	}
	log := slog.New(withoutQuotes{s.Log.Handler()})
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       request.ReadTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if !s.encrypts() { // else HTTP/2 is agreed on with TLS, unless the file says otherwise
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
	}
	addresses, systemd, file := []string{listener.Addr().String()}, false, s.ConfigFile
	return serve(ctx, server, func() error {
		return withoutValues(toolkit.Serve(s.places.Listen(listener), server,
			&toolkit.FlagConfig{WebListenAddresses: &addresses, WebSystemdSocket: &systemd, WebConfigFile: &file}, log))
	})
}

// encrypts reports whether the listener has TLS. A file that cannot be read is reported by the toolkit.
func (s *Server) encrypts() bool {
	if s.ConfigFile == "" {
		return false
	}
	f, err := files.ReadWeb(s.ConfigFile)
	return err != nil || f.HasTLS()
}

// asksForPasswords reports whether a request without a user's password is refused.
func (s *Server) asksForPasswords() bool {
	if s.ConfigFile == "" {
		return false
	}
	f, err := files.ReadWeb(s.ConfigFile)
	return err == nil && len(f.Users) > 0
}

// ServeHealth serves /-/healthy and the status of /-/ready to probes, without TLS and authentication, until ctx is
// done. A flood of passwords to be checked does not reach it.
func (s *Server) ServeHealth(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, r *http.Request) { _ = s.healthy(w, r) })
	mux.HandleFunc("GET /-/ready", s.readyStatus)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	return serve(ctx, server,
		func() error { return server.Serve(request.NewPlaces(maxHealth, nil).Listen(listener)) })
}

// serve runs a server until ctx is done. Requests under way see ctx, so that those that wait end at once.
func serve(ctx context.Context, server *http.Server, run func() error) error {
	server.ConnContext = request.WithPlace
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	var wg sync.WaitGroup
	wg.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer wg.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			server.Close()
		}
	})
	err := run()
	if stop() {
		wg.Done()
	}
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("web: %w", err)
}

// ListenHealth opens the address of the health listener: host:port of this machine, or unix: and the path of a socket,
// which replaces one that a killed daemon left behind.
func ListenHealth(address string) (net.Listener, error) {
	path, unix := cutUnix(address)
	if !unix {
		return net.Listen("tcp", address)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == os.ModeSocket {
		if conn, err := net.Dial("unix", path); err == nil {
			return nil, errors.Join(fmt.Errorf("%s is in use by another process", path), conn.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return net.Listen("unix", path)
}
