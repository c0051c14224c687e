package publish

import (
	"testing"
	"time"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/objects"
	"github.com/refitd/refitd/snapshot/objects/objectstest"
)

// TestBucket: with publish.store a bucket, consumers follow the bucket, and a publisher without its working copy
// continues from it.
func TestBucket(t *testing.T) {
	for _, cloud := range objectstest.Clouds {
		t.Run(cloud, func(t *testing.T) { inBucket(t, objectstest.For(t, cloud)) })
	}
}

func inBucket(t *testing.T, server *objectstest.Server) {
	m := signingModel(t)
	m.Publish.Objects = server.URL("prod")
	first, err := New(m, t.TempDir(), time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	ch := champion(t, m)
	if err := first.Publish(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	bucket, err := objects.Open(m.Publish.Objects)
	if err != nil {
		t.Fatal(err)
	}
	w, err := snapshot.Watch(&objects.Source{Bucket: bucket, Every: time.Millisecond},
		snapshot.WatchOptions{Model: m.Name, Trust: first.trust()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Wait(t.Context()); err != nil || w.Status().Version != 1 {
		t.Errorf("the follower has version %d, %v", w.Status().Version, err)
	}
	second, err := New(m, t.TempDir(), time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := second.Store().Alias(m.Name, snapshot.Latest)
	if err != nil || p.Version != 1 {
		t.Errorf("the second publisher has version %d, %v", p.Version, err)
	}
}
