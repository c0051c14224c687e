package traces

import "testing"

// TestEndpoint: a collector is named by its address alone, or by all of the URL.
func TestEndpoint(t *testing.T) {
	for given, want := range map[string]string{
		"http://otel:4318":                 "http://otel:4318/v1/traces",
		"https://otel:4318/":               "https://otel:4318/v1/traces",
		"http://otel:4318/v1/traces":       "http://otel:4318/v1/traces",
		"https://otel.example/tenant/otlp": "https://otel.example/tenant/otlp",
	} {
		if got := withPath(given); got != want {
			t.Errorf("%s is %s, want %s", given, got, want)
		}
	}
}
