package main

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/refitd/refitd/consumer/registry/registrytest"
	"github.com/refitd/refitd/daemon/daemontest"
	"github.com/refitd/refitd/daemon/daemontest/tier"
	"github.com/refitd/refitd/daemon/report"
)

// TestRunInFormats: a backlog takes no longer in Avro or Protobuf than in JSON, also a short one, whose schema is asked
// for when its first record comes.
func TestRunInFormats(t *testing.T) {
	tier.NotUnderRace(t)
	n, rounds := tier.Size(5_000, 1_000_000), tier.Size(1, 3)
	data, benches := ratingsFile(t, n), make(map[string]*daemontest.Bench)
	formats, registry := []string{"json", "avro", "protobuf"}, registrytest.New(t)
	for _, format := range formats {
		b := daemontest.New(t)
		benches[format] = b
		args := []string{"replay", "--config.file", b.Configure("plain"), "--data", data, "--bootstrap-servers", b.Addr,
			"--topic", daemontest.Topic}
		if format != "json" {
			args = append(args, "--as", format, "--registry", registry.URL)
		}
		refitd(t, report.ExitDone, args...)
	}
	// Every event is learned, or the share of a catch-up that begins at once: when one would begin
	// depends on the clock, and the formats would do other work. It has to take seconds: what a start takes is no rate.
	for _, catchUp := range []string{"learn_all", "1ms"} {
		wall, used := make(map[string][]float64), make(map[string][]float64)
		for round := range rounds {
			for _, format := range formats { // in turn, as the machine is not the same all the time
				b := benches[format]
				path := b.Configure(fmt.Sprint(format, catchUp, round), "start: earliest", "start: earliest, format: "+format,
					"fetch_max_wait: 100ms", "fetch_max_wait: 100ms, schema_registry: {url: '"+registry.URL+"'}",
					"size: 20000", "size: 10000", "max_basis: 4", "max_basis: 1", "every_events: 0",
					"every_events: 0, time_budget: 1s, catch_up: "+catchUp)
				before := processorTime(t)
				out := b.Run(path)
				// whether the refit gets to an end within its budget is not what is measured
				if code := report.CodeOf(out.Err); code > report.ExitNo {
					t.Fatalf("%s: %v", format, out.Err)
				}
				wall[format] = append(wall[format], 1e6/float64(out.Summary.EventsPerSecond))
				used[format] = append(used[format], float64((processorTime(t)-before).Nanoseconds())/1e3/float64(n))
			}
		}
		median := func(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }
		for _, format := range formats {
			ratio := median(wall[format]) / median(wall["json"])
			t.Logf("%-9s %-9s %6.2f µs an event, %5.2f of JSON; %6.2f µs of processor time with the refit, %5.2f", catchUp,
				format, median(wall[format]), ratio, median(used[format]), median(used[format])/median(used["json"]))
			if tier.Asked(tier.Load) && ratio > 1.5 {
				t.Errorf("%s takes %.2f times as long as JSON", format, ratio)
			}
		}
	}
}

func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
