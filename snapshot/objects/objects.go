// Package objects publishes to and reads from object stores: Amazon's, MinIO and others that speak S3, Google's and
// Azure's.
//
//	bucket, err := objects.Open("s3://models/prod?region=eu-central-1")
//	store.Bucket = bucket                                                     // of a publish.Store
//	w, err := snapshot.Watch(&objects.Source{Bucket: bucket}, options)        // of a consumer
//
// Files:
//
//	objects.go  Open: a bucket by its URL
//	s3.go       S3; awskeys has its keys
//	google.go   Google Cloud Storage; azure.go Azure Blob Storage: both by rest.go, with tokens.go
//	source.go   Source: what consumers follow; poll.go what they ask for while there is no news
//
// The store has to write under a condition, which is an ETag or a generation: one that ignores it would let two writers
// in. Google's by S3's interface is such a one. Everything is safe for concurrent use.
package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/refitd/refitd/snapshot"
)

// Bucket is what begins with a prefix in a bucket: see publish.Bucket.
type Bucket interface {
	Reader
	PutAbsent(ctx context.Context, key string, content []byte) (tag string, err error)
	Replace(ctx context.Context, key, tag string, content []byte) (next string, err error)
	List(ctx context.Context, prefix string) ([]string, error)
	Delete(ctx context.Context, key string) error
}

// a location is the URL of a bucket, read.
type location struct {
	place    string // without parameters, and with a slash at its end
	bucket   string // the host; of Azure the account
	path     string // the rest, without slashes around it
	endpoint *url.URL
	region   string
	// parameters that are true or false; absent ones are not in it
	flags map[string]bool
}

var openers = map[string]func(*location) (Bucket, error){"s3": openS3, "gs": openGoogle, "azure": openAzure}

// endpoints are the variables that name a store, as the clients of each cloud read them.
var endpoints = map[string]string{"s3": "AWS_ENDPOINT_URL_S3", "gs": emulator}

// IsURL reports whether a place is a bucket, and not a directory.
func IsURL(place string) bool {
	scheme, _, found := strings.Cut(place, "://")
	return found && openers[scheme] != nil
}

// Open returns the bucket with a URL: s3://bucket/prefix, gs://bucket/prefix or azure://account/container/prefix, with
// these parameters:
//
//	endpoint           URL of the store; AWS_ENDPOINT_URL_S3, STORAGE_EMULATOR_HOST or that of the cloud without it
//	region             of S3; AWS_REGION or us-east-1 without it
//	path_style         of S3; true puts the bucket into the path, false into the host; without it as is usual
//	instance_metadata  true asks this machine's address for keys or tokens where the environment names none
//
// It does not connect. The error says what of the URL cannot be used.
func Open(place string) (Bucket, error) {
	u, err := url.Parse(place)
	if err != nil || openers[u.Scheme] == nil || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("objects: %q is not of the form s3://bucket/prefix?endpoint=…&region=…, "+
			"gs://bucket/prefix or azure://account/container/prefix", place)
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("objects: %q: %w", place, err)
	}
	at := &location{bucket: u.Host, path: strings.Trim(u.Path, "/"), flags: make(map[string]bool)}
	at.place = strings.TrimSuffix(u.Scheme+"://"+u.Host+"/"+at.path, "/") + "/"
	for name, values := range options {
		value := values[len(values)-1]
		switch s3 := u.Scheme == "s3"; {
		case name == "instance_metadata", name == "path_style" && s3:
			if at.flags[name], err = strconv.ParseBool(value); err != nil {
				return nil, fmt.Errorf("objects: %s is %q, want true or false", name, value)
			}
		case name != "endpoint" && !(name == "region" && s3):
			return nil, fmt.Errorf("objects: %q is no parameter: want endpoint or instance_metadata, and of s3:// region "+
				"or path_style", name)
		}
	}
	at.region = options.Get("region")
	if endpoint := first(options.Get("endpoint"), os.Getenv(endpoints[u.Scheme])); endpoint != "" {
		if u.Scheme == "gs" && !strings.Contains(endpoint, "://") { // as Google's clients read their variable
			endpoint = "http://" + endpoint
		}
		at.endpoint, err = url.Parse(endpoint)
		if err != nil || at.endpoint.Host == "" || at.endpoint.Scheme != "https" && at.endpoint.Scheme != "http" ||
			u.Scheme != "azure" && strings.Trim(at.endpoint.Path, "/") != "" {
			return nil, fmt.Errorf("objects: endpoint is %q, want an https URL without a path", endpoint)
		}
	}
	bucket, err := openers[u.Scheme](at)
	if err != nil {
		return nil, fmt.Errorf("objects: %q: %w", place, err)
	}
	return bucket, nil
}

var (
	errBucketName = errors.New("it names no bucket")
	errNoTag      = fmt.Errorf("%w: an answer without the tag of the object", snapshot.ErrFormat)
)

// within returns the prefix of keys.
func within(path string) string {
	if path == "" {
		return ""
	}
	return path + "/"
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// A pace ends a request once nothing has come from a store for a while: one that stops in the middle of an answer must
// not stop who waits for it.
type pace struct {
	above context.Context
	ctx   context.Context
	end   context.CancelFunc
	timer *time.Timer
}

var patience = 30 * time.Second // tests have less

var errSlow = errors.New("nothing has come from the store for too long")

// paced returns the pace of a request that sends so many bytes.
func paced(ctx context.Context, sends int) *pace {
	const slowest = 1 << 20 // bytes a second
	p := &pace{above: ctx}
	p.ctx, p.end = context.WithCancel(ctx)
	p.timer = time.AfterFunc(patience+time.Duration(sends/slowest)*time.Second, p.end)
	return p
}

func (p *pace) stop() {
	p.timer.Stop()
	p.end()
}

// read reads a body of at most limit bytes, with one more if it is longer.
func (p *pace) read(body io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(&pacedReader{body, p.timer}, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", snapshot.ErrFormat, limit)
	}
	return b, p.explain(err)
}

// explain says why a request has ended.
func (p *pace) explain(err error) error {
	if err != nil && p.ctx.Err() != nil && p.above.Err() == nil {
		return errSlow
	}
	return err
}

type pacedReader struct {
	body  io.Reader
	timer *time.Timer
}

func (r *pacedReader) Read(b []byte) (int, error) {
	n, err := r.body.Read(b)
	if n > 0 {
		r.timer.Reset(patience)
	}
	return n, err
}
