package web

import (
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot/format"
	"github.com/refitd/refitd/snapshot/publish"
)

// TestCatalog: lists of models, versions and aliases, and single ones with their manifest.
func TestCatalog(t *testing.T) {
	b := newBench(t)
	b.publish(t, "ratings", contents(format.Ordinal, 2))
	b.listen(t)
	var models struct {
		Models []modelEntry
	}
	within(t, patience, "all champions", func() bool {
		b.want(http.StatusOK, &models, "GET", "/v1/models", nil)
		for _, m := range models.Models {
			if m.Version == nil {
				return false
			}
		}
		return len(models.Models) == len(tasks)
	})
	var one modelEntry
	if w := b.want(http.StatusOK, &one, "GET", "/v1/models/ratings", nil); *one.Version != 2 ||
		one.Aliases["latest"] != 2 ||
		w.Header().Get(versionHeader) != "2" {
		t.Errorf("model %+v", one)
	}
	var versions struct {
		Model    string
		Versions []versionEntry
	}
	b.want(http.StatusOK, &versions, "GET", "/v1/models/ratings/versions", nil)
	if len(versions.Versions) != 2 || versions.Versions[0].Version != 1 ||
		!reflect.DeepEqual(versions.Versions[1].Aliases, []string{"champion", "latest"}) {
		t.Errorf("versions %+v", versions)
	}
	m := open(t, b.dir, "ratings", 2)
	path := "/v1/models/ratings/versions/2"
	var got versionEntry
	w := b.want(http.StatusOK, &got, "GET", path, nil)
	checkIdentity(t, w.Header(), got.identity, m)
	if got.ManifestDigest != m.Manifest().Digest || got.Manifest.Model != "ratings" || len(got.Manifest.Files) != 3 {
		t.Errorf("%s: %+v", path, got)
	}
	b.want(http.StatusNotModified, nil, "GET", path, nil, "If-None-Match", `"x", `+w.Header().Get("ETag"))
	path = "/v1/models/ratings/aliases/champion"
	var alias aliasEntry
	w = b.want(http.StatusOK, &alias, "GET", path, nil)
	checkIdentity(t, w.Header(), identity{alias.Model, alias.Version, alias.Digest}, m)
	if err := alias.Verify("ratings", "champion", nil); err != nil || alias.ManifestDigest != m.Manifest().Digest ||
		alias.Alias != "champion" {
		t.Errorf("%s: %+v, %v", path, alias, err)
	}
	b.want(http.StatusNotModified, nil, "GET", path, nil, "If-None-Match", w.Header().Get("ETag"))
	for path, want := range map[string]string{"/v1/models/ratings/aliases/none": "has 1, 2; its aliases are champion, " +
		"latest",
		"/v1/models/ratings/versions/3":            "ratings has 1, 2; its aliases are",
		"/v2/models/ratings/versions/3":            "ratings has 1, 2; its aliases are",
		"/v1/models/ratings/versions/1/files/none": "it has manifest.json, ",
		"/v1/models/rating/versions/1":             "there is no such model: there is "} {
		if text := b.want(http.StatusNotFound, nil, "GET", path, nil).Body.String(); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %q", path, text, want)
		}
	}
	for range mostNamed {
		b.publish(t, "ratings", contents(format.Ordinal, 2))
	}
	w = b.want(http.StatusNotFound, nil, "GET", "/v1/models/ratings/versions/99", nil)
	if text := w.Body.String(); !strings.Contains(text, "ratings has 12, the newest are 3, 4,") {
		t.Errorf("%s", text)
	}
}

// TestBeforeTheFirstVersion: a model without versions is listed, and asked for one answers 404.
func TestBeforeTheFirstVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "absent")
	b := newBench(t, func(o *Options) {
		o.Models = append(o.Models, Model{Name: "new", Dir: dir, Store: publish.NewStore(dir)})
	})
	var one modelEntry
	if b.want(http.StatusOK, &one, "GET", "/v1/models/new", nil); one.Version != nil || len(one.Aliases) != 0 {
		t.Errorf("%+v", one)
	}
	b.want(http.StatusOK, nil, "GET", "/v1/models", nil)
	b.want(http.StatusOK, nil, "GET", "/v1/models/new/versions", nil)
	w := b.want(http.StatusNotFound, nil, "GET", "/v1/models/new/aliases/champion", nil)
	if text := w.Body.String(); !strings.Contains(text, "none of new has been published yet") {
		t.Errorf("%s", text)
	}
	b.want(http.StatusNotFound, nil, "POST", "/v1/models/new/score", map[string]any{"events": []any{}})
	b.want(http.StatusNotFound, nil, "GET", "/v2/models/new", nil)
}

// TestLongPoll: a wait ends when the alias names another version, older ones included, or with 304.
func TestLongPoll(t *testing.T) {
	b := newBench(t)
	addr, stop := b.listen(t)
	path := "/v1/models/ratings/aliases/champion"
	if w := b.want(http.StatusNotModified, nil, "GET", path+"?after=1&wait=50ms", nil); w.Header().
		Get(versionHeader) !=
		"1" {
		t.Errorf("304 with %v", w.Header())
	}
	var got versionEntry
	if b.want(http.StatusOK, &got, "GET", path+"?after=0&wait=30s", nil); got.Version != 1 {
		t.Errorf("after=0: version %d", got.Version)
	}
	for _, query := range []string{"?after=x", "?after=-1", "?wait=1s", "?after=1&wait=61s", "?after=1&wait=-1s",
		"?after=1&wait=x"} {
		b.want(http.StatusBadRequest, nil, "GET", path+query, nil)
	}
	for _, move := range []struct{ after, to int64 }{{1, 2}, {2, 1}} {
		answers := make(chan versionEntry, 1)
		go func() {
			var e versionEntry
			b.want(http.StatusOK, &e, "GET", fmt.Sprintf("%s?after=%d&wait=30s", path, move.after), nil)
			answers <- e
		}()
		within(t, patience, "the wait", func() bool { return len(b.polls) == 1 })
		moved := time.Now()
		if move.to == 2 {
			b.publish(t, "ratings", contents(format.Ordinal, 2))
		} else {
			b.promote(t, "ratings", move.to)
		}
		if e := <-answers; e.Version != move.to || time.Since(moved) > 20*time.Second {
			t.Errorf("version %d %v after the move to %d", e.Version, time.Since(moved), move.to)
		}
	}
	// A daemon that stops does not wait for those who wait.
	client := newClient(t)
	ended := make(chan error, 1)
	go func() {
		res, err := client.Get("http://" + addr + path + "?after=1&wait=60s")
		if err == nil {
			err = res.Body.Close()
		}
		ended <- err
	}()
	within(t, patience, "the wait", func() bool { return len(b.polls) == 1 })
	stopping := time.Now()
	stop()
	if err := <-ended; err != nil || time.Since(stopping) > closeTimeout {
		t.Errorf("the wait ended with %v after %v", err, time.Since(stopping))
	}
}

// TestMoveAlias: only with lifecycle, only to a version that scores its golden events, and with a reason.
func TestMoveAlias(t *testing.T) {
	path := "/v1/models/ratings/aliases/champion"
	b := newBench(t)
	b.want(http.StatusForbidden, nil, "PUT", path, `{"version":1,"why":"test"}`)
	b = newBench(t, withLifecycle)
	b.publish(t, "ratings", contents(format.Ordinal, 2))
	b.publish(t, "ratings", contents(format.Ordinal, 3))
	damage(t, b.dir, "ratings", 2)
	for body, status := range map[string]int{
		`{"version":9,"why":"none"}`:               http.StatusNotFound,
		`{"version":2,"why":"damaged"}`:            http.StatusBadGateway,
		`{"version":0,"why":"no"}`:                 http.StatusBadRequest,
		`{"version":1}`:                            http.StatusBadRequest,
		`{"version":1,"why":" "}`:                  http.StatusBadRequest,
		`{"version":1,"why":"x","who":"somebody"}`: http.StatusBadRequest,
		`{"version":1.5,"why":"x"}`:                http.StatusBadRequest,
		`{"version":"1","why":"x"}`:                http.StatusBadRequest,
	} {
		b.want(status, nil, "PUT", path, body)
		if v, err := b.store.Alias("ratings", "champion"); v.Version != 3 || err != nil {
			t.Errorf("%s moved the alias to %d, error %v", body, v.Version, err)
		}
	}
	var got versionEntry
	if b.want(http.StatusOK, &got, "PUT", path, `{"version":1,"why":"the new one is worse"}`); got.Version != 1 {
		t.Errorf("%+v", got)
	}
	b.want(http.StatusOK, nil, "PUT", "/v1/models/ratings/aliases/canary", `{"version":3,"why":"try it"}`)
	b.want(http.StatusBadRequest, nil, "PUT", "/v1/models/ratings/aliases/NO", `{"version":3,"why":"try it"}`)
	if a, err := b.store.Aliases("ratings"); err != nil || a["champion"] != 1 || a["canary"] != 3 {
		t.Errorf("aliases %v, %v", a, err)
	}
}
