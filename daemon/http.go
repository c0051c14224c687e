package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
)

// Time-outs of the listener. A scrape is the slowest request it serves.
const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 60 * time.Second
	closeTimeout  = 5 * time.Second
	maxHeader     = 16 << 10
)

// readiness is what /-/ready answers.
type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

// newHandler serves health, readiness and metrics. Healthy means that the process runs: neither Kafka nor a model can make it ill.
func newHandler(g prometheus.Gatherer, ready func() []string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "refitd is healthy.") })
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		state := readiness{Reasons: ready()}
		state.Ready = len(state.Reasons) == 0
		if state.Ready {
			state.Reasons = []string{}
		}
		w.Header().Set("Content-Type", "application/json")
		if !state.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(state) // the client is gone if this fails
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: writeTimeout}))
	return mux
}

// serveHTTP serves until ctx is done, with the exporter-toolkit's TLS and authentication if the configuration names a file.
func (d *Daemon) serveHTTP(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: newHandler(d.registry, d.notReady), ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader}
	stop := context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			server.Close()
		}
	})
	defer stop()
	addresses, systemd, file := []string{listener.Addr().String()}, false, d.config.Web.ConfigFile
	err := web.Serve(listener, server, &web.FlagConfig{WebListenAddresses: &addresses, WebSystemdSocket: &systemd, WebConfigFile: &file}, d.log)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("daemon: web: %w", err)
}
