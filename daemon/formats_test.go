package daemon_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/consumer/registry/registrytest"
	"github.com/refitd/refitd/daemon/daemontest"
)

// TestRegistryAway: a daemon that reads Avro starts while the registry is away. It rejects nothing, is not ready, and
// says for which schema it waits. When the registry is back it reads; without it, it reads on after a restart.
func TestRegistryAway(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	away.Store(true)
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() || r.URL.Path != "/schemas/ids/7" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"schema": registrytest.RatingSchema})
	}))
	defer registry.Close()
	b := daemontest.New(t)
	produce := func(from, to int) {
		b.Produce(registrytest.Ratings(from, to, func(int) byte { return 7 })...)
	}
	produce(0, 600)
	path := b.Configure("avro", append([]string{"start: earliest", "start: earliest, format: avro",
		"[user, item]", "[user, item], numeric: [{name: price, optional: true}]", // which the schema does not have
		"fetch_max_wait: 100ms", "fetch_max_wait: 100ms, schema_registry: {url: \"" + registry.URL + "\"}"},
		daemontest.Simple...)...)
	const metric = `refitd_schema_unavailable{model="ratings"} `
	d, stop := b.Start(path)
	base := "http://" + d.Addr()
	daemontest.Within(t, daemontest.Patience, "the alert", func() bool {
		_, metrics := daemontest.Get(t, base+"/metrics")
		_, status := daemontest.Get(t, base+"/v1/status")
		return strings.Contains(metrics, metric+"1\n") && strings.Contains(status, "RefitdSchemaUnavailable") &&
			strings.Contains(status, "schema 7") && strings.Contains(status, registry.URL)
	})
	daemontest.Within(t, daemontest.Patience, "ready to name the schema", func() bool {
		code, ready := daemontest.Get(t, base+"/-/ready")
		return code != http.StatusOK && strings.Contains(ready, "schema 7") &&
			strings.Contains(ready, `"paused":[{"topic":"ratings","partition":`)
	})
	away.Store(false)
	applied := func(n int) func() bool {
		return func() bool {
			_, metrics := daemontest.Get(t, base+"/metrics")
			return strings.Contains(metrics, fmt.Sprintf("refitd_events_total{model=%q,topic=%[1]q} %d\n", "ratings", n)) &&
				strings.Contains(metrics, metric+"0\n") && daemontest.Sum(t, metrics, "refitd_events_rejected_total") == 0
		}
	}
	daemontest.Within(t, 2*daemontest.Patience, "the events", applied(600))
	_, metrics := daemontest.Get(t, base+"/metrics")
	shown, documented := families(t, metrics), documentedMetrics(t)
	for _, name := range []string{"refitd_schemas", "refitd_schema_requests_total", "refitd_schema_failures_total",
		"refitd_schema_unavailable", "refitd_schema_loses_field"} {
		if shown[name] == "" || shown[name] != documented[name] {
			t.Errorf("%s is a %q, in configs/metrics.json a %q", name, shown[name], documented[name])
		}
	}
	stop()
	away.Store(true)
	produce(600, 900)
	d, stop = b.Start(path)
	defer stop()
	base = "http://" + d.Addr()
	daemontest.Within(t, daemontest.Patience, "the events after a restart", applied(300))
}
