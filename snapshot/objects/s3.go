// Package objects publishes to and reads from object stores that speak S3: Amazon's, Google's, MinIO and others.
//
//	bucket, err := objects.Open("s3://models/prod?region=eu-central-1")
//	store.Bucket = bucket                                                     // of a publish.Store
//	w, err := snapshot.Watch(&objects.Source{Bucket: bucket}, options)        // of a consumer
//
// Files:
//
//	s3.go      Open: a bucket by its URL
//	source.go  Source: what consumers follow; poll.go what they ask for while there is no news
//
// The store has to write under a condition (If-Match, If-None-Match): one that ignores it would let two writers in.
// Everything is safe for concurrent use.
package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/objects/awskeys"
)

// Scheme begins the URL of a bucket.
const Scheme = "s3://"

// IsURL reports whether a place is a bucket, and not a directory.
func IsURL(place string) bool { return strings.HasPrefix(place, Scheme) }

// S3 is a bucket, or what begins with a prefix in one.
type S3 struct {
	client *minio.Core
	bucket string
	prefix string // empty, or with a slash at its end
}

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Open returns the bucket with a URL: s3://bucket/prefix, with these parameters:
//
//	endpoint           URL of the store; AWS_ENDPOINT_URL_S3 or that of Amazon without it
//	region             AWS_REGION or us-east-1 without it
//	path_style         true puts the bucket into the path, false into the name of the host; without it as is usual
//	instance_metadata  true asks this machine's address for keys where package awskeys finds none
//
// It does not connect. The error says what of the URL cannot be used.
func Open(place string) (*S3, error) {
	u, err := url.Parse(place)
	if err != nil || u.Scheme+"://" != Scheme || !bucketForm.MatchString(u.Host) || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("objects: %q is not of the form s3://bucket/prefix?endpoint=…&region=…", place)
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("objects: %q: %w", place, err)
	}
	flags := map[string]bool{"path_style": false, "instance_metadata": false}
	for name, values := range options {
		value := values[len(values)-1]
		if _, ok := flags[name]; ok {
			if flags[name], err = strconv.ParseBool(value); err != nil {
				return nil, fmt.Errorf("objects: %s is %q, want true or false", name, value)
			}
		} else if name != "endpoint" && name != "region" {
			return nil, fmt.Errorf("objects: %q is no parameter: want endpoint, region, path_style or instance_metadata", name)
		}
	}
	endpoint := first(options.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), "https://s3.amazonaws.com")
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || strings.Trim(at.Path, "/") != "" {
		return nil, fmt.Errorf("objects: endpoint is %q, want an https URL without a path", endpoint)
	}
	lookup := minio.BucketLookupAuto
	if options.Has("path_style") {
		lookup = minio.BucketLookupDNS
		if flags["path_style"] {
			lookup = minio.BucketLookupPath
		}
	}
	client, err := minio.NewCore(at.Host, &minio.Options{
		Creds:        awskeys.Chain(flags["instance_metadata"]),
		Secure:       at.Scheme == "https",
		Region:       first(options.Get("region"), os.Getenv("AWS_REGION"), "us-east-1"),
		BucketLookup: lookup,
		MaxRetries:   3,
	})
	if err != nil {
		return nil, fmt.Errorf("objects: %q: %w", place, err)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &S3{client: client, bucket: u.Host, prefix: prefix}, nil
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

// failure names an error of the store.
func (s *S3) failure(op, key string, err error) error {
	answer := minio.ToErrorResponse(err)
	switch answer.StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict:
		err = fmt.Errorf("%w: another writer was there first", snapshot.ErrConflict)
	case http.StatusNotFound:
		if answer.Code != "NoSuchBucket" {
			err = fs.ErrNotExist
		}
	}
	return fmt.Errorf("%s %s%s/%s%s: %w", op, Scheme, s.bucket, s.prefix, key, err)
}

// Get implements publish.Bucket.
func (s *S3) Get(ctx context.Context, key, unless string, limit int64) ([]byte, string, error) {
	var options minio.GetObjectOptions
	if unless != "" {
		if err := options.SetMatchETagExcept(unless); err != nil {
			return nil, "", err
		}
	}
	body, info, _, err := s.client.GetObject(ctx, s.bucket, s.prefix+key, options)
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotModified {
		return nil, unless, nil
	}
	if err != nil {
		return nil, "", s.failure("GET", key, err)
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, limit+1))
	switch {
	case err != nil:
		return nil, "", s.failure("GET", key, err)
	case int64(len(b)) > limit:
		return nil, "", s.failure("GET", key, fmt.Errorf("%w: more than %d bytes", snapshot.ErrFormat, limit))
	case int64(len(b)) != info.Size:
		return nil, "", s.failure("GET", key, io.ErrUnexpectedEOF)
	}
	return b, info.ETag, nil
}

// PutAbsent implements publish.Bucket.
func (s *S3) PutAbsent(ctx context.Context, key string, content []byte) (string, error) {
	var options minio.PutObjectOptions
	options.SetMatchETagExcept("*")
	return s.put(ctx, key, content, options)
}

// Replace implements publish.Bucket.
func (s *S3) Replace(ctx context.Context, key, tag string, content []byte) (string, error) {
	var options minio.PutObjectOptions
	options.SetMatchETag(tag)
	next, err := s.put(ctx, key, content, options)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", snapshot.ErrConflict, err)
	}
	return next, err
}

// put writes an object in one request: the parts of a larger one would be written without the condition.
func (s *S3) put(ctx context.Context, key string, content []byte, options minio.PutObjectOptions) (string, error) {
	options.DisableMultipart, options.SendContentMd5 = true, true
	options.ContentType = "application/octet-stream"
	info, err := s.client.Client.PutObject(ctx, s.bucket, s.prefix+key, bytes.NewReader(content), int64(len(content)),
		options)
	if err != nil {
		return "", s.failure("PUT", key, err)
	}
	return info.ETag, nil
}

// List implements publish.Bucket.
func (s *S3) List(ctx context.Context, prefix string) (keys []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s.client.Client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{
		Prefix: s.prefix + prefix, Recursive: true,
	}) {
		if object.Err != nil {
			return nil, s.failure("LIST", prefix, object.Err)
		}
		keys = append(keys, strings.TrimPrefix(object.Key, s.prefix))
	}
	return keys, nil
}

// Delete implements publish.Bucket.
func (s *S3) Delete(ctx context.Context, key string) error {
	if err := s.client.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{}); err != nil {
		return s.failure("DELETE", key, err)
	}
	return nil
}
