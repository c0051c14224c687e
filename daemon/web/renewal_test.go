package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
)

// J3: a consumer that asks over HTTP sees each renewal while it waits for the next version; a client that does not say
// which one it knows is not woken by it, as before there were any.
func TestRenewalOverHTTP(t *testing.T) {
	b := newBench(t)
	server := httptest.NewServer(b)
	defer server.Close()
	w, err := snapshot.Watch(snapshot.HTTPSource{URL: server.URL, LongPoll: 10 * time.Second},
		snapshot.WatchOptions{Model: "ratings"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := b.store.Renew(t.Context(), "ratings", pointer.Champion, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(patience)
		for !w.Status().Renewed.Equal(p.Renewal.Renewed) {
			if time.Now().After(deadline) {
				t.Fatalf("the renewal of %v does not come: %+v", p.Renewal.Renewed, w.Status())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if s := w.Status(); s.Loads != 1 || s.Err != nil {
		t.Errorf("%+v", s)
	}
	p, err := b.store.Alias("ratings", pointer.Champion)
	if err != nil {
		t.Fatal(err)
	}
	b.want(http.StatusNotModified, nil, "GET", "/v1/models/ratings/aliases/champion?after=1&wait=0s", nil,
		"If-None-Match", p.ETag())
}
