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
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/objects/awskeys"
)

// s3 is a bucket of a store that speaks S3.
type s3 struct {
	client *minio.Core
	place  string
	bucket string
	prefix string // empty, or with a slash at its end
}

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

func openS3(at *location) (Bucket, error) {
	if !bucketForm.MatchString(at.bucket) {
		return nil, errBucketName
	}
	endpoint := at.endpoint
	if endpoint == nil {
		endpoint = &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	}
	lookup := minio.BucketLookupAuto
	if path, said := at.flags["path_style"]; said {
		lookup = minio.BucketLookupDNS
		if path {
			lookup = minio.BucketLookupPath
		}
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:        awskeys.Chain(at.flags["instance_metadata"]),
		Secure:       endpoint.Scheme == "https",
		Region:       first(at.region, os.Getenv("AWS_REGION"), "us-east-1"),
		BucketLookup: lookup,
		MaxRetries:   3,
	})
	if err != nil {
		return nil, err
	}
	return &s3{client: client, place: at.place, bucket: at.bucket, prefix: within(at.path)}, nil
}

// failure names an error of the store.
func (s *s3) failure(op, key string, err error) error {
	answer := minio.ToErrorResponse(err)
	switch answer.StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict:
		err = fmt.Errorf("%w: another writer was there first", snapshot.ErrConflict)
	case http.StatusNotFound:
		if answer.Code != "NoSuchBucket" {
			err = fs.ErrNotExist
		}
	}
	return fmt.Errorf("%s %s%s: %w", op, s.place, key, err)
}

// Get implements publish.Bucket.
func (s *s3) Get(ctx context.Context, key, unless string, limit int64) ([]byte, string, error) {
	p := paced(ctx, 0)
	defer p.stop()
	var options minio.GetObjectOptions
	if unless != "" {
		if err := options.SetMatchETagExcept(unless); err != nil {
			return nil, "", err
		}
	}
	body, info, _, err := s.client.GetObject(p.ctx, s.bucket, s.prefix+key, options)
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotModified {
		return nil, unless, nil
	}
	if err != nil {
		return nil, "", s.failure("GET", key, p.explain(err))
	}
	defer body.Close()
	b, err := p.read(body, limit)
	switch {
	case err != nil:
		return nil, "", s.failure("GET", key, err)
	case info.ETag == "":
		return nil, "", s.failure("GET", key, errNoTag)
	case int64(len(b)) != info.Size:
		return nil, "", s.failure("GET", key, io.ErrUnexpectedEOF)
	}
	return b, info.ETag, nil
}

// PutAbsent implements publish.Bucket.
func (s *s3) PutAbsent(ctx context.Context, key string, content []byte) (string, error) {
	var options minio.PutObjectOptions
	options.SetMatchETagExcept("*")
	return s.put(ctx, key, content, options)
}

// Replace implements publish.Bucket.
func (s *s3) Replace(ctx context.Context, key, tag string, content []byte) (string, error) {
	var options minio.PutObjectOptions
	options.SetMatchETag(tag)
	next, err := s.put(ctx, key, content, options)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", snapshot.ErrConflict, err)
	}
	return next, err
}

// put writes an object in one request: the parts of a larger one would be written without the condition.
func (s *s3) put(ctx context.Context, key string, content []byte, options minio.PutObjectOptions) (string, error) {
	p := paced(ctx, len(content))
	defer p.stop()
	options.DisableMultipart, options.SendContentMd5 = true, true
	options.ContentType = "application/octet-stream"
	info, err := s.client.Client.PutObject(p.ctx, s.bucket, s.prefix+key, bytes.NewReader(content), int64(len(content)),
		options)
	if err != nil {
		return "", s.failure("PUT", key, p.explain(err))
	}
	return info.ETag, nil
}

// List implements publish.Bucket.
func (s *s3) List(ctx context.Context, prefix string) (keys []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*patience) // there may be many pages
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
func (s *s3) Delete(ctx context.Context, key string) error {
	if err := s.client.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{}); err != nil {
		return s.failure("DELETE", key, err)
	}
	return nil
}
