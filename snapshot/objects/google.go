package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/oauth2"
	googleauth "golang.org/x/oauth2/google"
)

// google is a bucket of Google Cloud Storage by its JSON interface. Its interface like S3's ignores If-Match and
// If-None-Match of a PUT; here a tag is the generation of an object, which conditions name.
//
// Source: https://docs.cloud.google.com/storage/docs/request-preconditions, …/docs/json_api/v1/objects
type google struct {
	rest
	objects string // URL of the objects of the bucket
	upload  string
	prefix  string // empty, or with a slash at its end
}

const (
	emulator     = "STORAGE_EMULATOR_HOST" // a store that asks for no token, as Google's clients read it
	googleScope  = "https://www.googleapis.com/auth/devstorage.read_write"
	maxListBytes = 64 << 20
	noGeneration = "0" // what conditions call the generation of an object that is not there
)

// googleForm is that of names of buckets: longer with dots than those of S3, and with underscores.
var googleForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

func openGoogle(at *location) (Bucket, error) {
	if !googleForm.MatchString(at.bucket) {
		return nil, errBucketName
	}
	g := &google{rest: newRest(at.place), prefix: within(at.path)}
	t := &tokens{fetch: func(ctx context.Context) (*oauth2.Token, error) {
		return googleToken(ctx, at.flags["instance_metadata"])
	}}
	g.authorize, g.refused = t.authorize, t.refused
	base := "https://storage.googleapis.com"
	if at.endpoint != nil {
		base = at.endpoint.Scheme + "://" + at.endpoint.Host
		if os.Getenv(emulator) != "" {
			g.authorize = func(*http.Request) error { return nil }
		}
	}
	g.objects = base + "/storage/v1/b/" + at.bucket + "/o"
	g.upload = base + "/upload/storage/v1/b/" + at.bucket + "/o"
	return g, nil
}

// googleToken returns a token of the credentials that Google's clients find: GOOGLE_APPLICATION_CREDENTIALS names a
// file of a service account or of a workload's identity, gcloud writes one. metadata allows those of the machine.
func googleToken(ctx context.Context, metadata bool) (*oauth2.Token, error) {
	if !metadata && os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") == "" {
		home, _ := os.UserHomeDir() // without one there is no such file
		if _, err := os.Stat(filepath.Join(home, ".config/gcloud/application_default_credentials.json")); err != nil {
			return nil, errors.New("GOOGLE_APPLICATION_CREDENTIALS is not set, gcloud has left no file, and " +
				"instance_metadata is off")
		}
	}
	found, err := googleauth.FindDefaultCredentials(ctx, googleScope)
	if err != nil {
		return nil, err
	}
	return found.TokenSource.Token()
}

func (g *google) object(key string) string { return g.objects + "/" + url.PathEscape(g.prefix+key) }

// Get implements publish.Bucket.
func (g *google) Get(ctx context.Context, key, unless string, limit int64) ([]byte, string, error) {
	query := url.Values{"alt": {"media"}}
	if unless != "" {
		query.Set("ifGenerationNotMatch", unless)
	}
	answer, body, err := g.do(ctx, &request{op: "GET", key: key, method: http.MethodGet, limit: limit,
		url: g.object(key) + "?" + query.Encode(), ok: []int{http.StatusOK, http.StatusNotModified}})
	if err != nil {
		return nil, "", err
	}
	generation := answer.Header.Get("X-Goog-Generation")
	switch {
	case unless != "" && (answer.StatusCode == http.StatusNotModified || generation == unless):
		return nil, unless, nil
	case generation == "":
		return nil, "", fmt.Errorf("GET %s%s: %w", g.place, key, errNoTag)
	}
	return body, generation, nil
}

// PutAbsent implements publish.Bucket.
func (g *google) PutAbsent(ctx context.Context, key string, content []byte) (string, error) {
	return g.Replace(ctx, key, noGeneration, content)
}

// Replace implements publish.Bucket.
func (g *google) Replace(ctx context.Context, key, tag string, content []byte) (string, error) {
	query := url.Values{"uploadType": {"media"}, "name": {g.prefix + key}, "ifGenerationMatch": {tag}}
	_, body, err := g.do(ctx, &request{op: "PUT", key: key, method: http.MethodPost, limit: maxListBytes,
		url: g.upload + "?" + query.Encode(), content: content, ok: []int{http.StatusOK},
		header: map[string]string{"Content-Type": "application/octet-stream"}})
	if err != nil {
		return "", err
	}
	var made struct {
		Generation string `json:"generation"`
	}
	if err := json.Unmarshal(body, &made); err != nil || made.Generation == "" {
		return "", fmt.Errorf("PUT %s%s: %w", g.place, key, errNoTag)
	}
	return made.Generation, nil
}

// List implements publish.Bucket.
func (g *google) List(ctx context.Context, prefix string) (keys []string, err error) {
	query := url.Values{"prefix": {g.prefix + prefix}, "fields": {"items(name),nextPageToken"}}
	return g.list(ctx, g.objects, prefix, g.prefix, "pageToken", query, func(page []byte) (names []string, next string,
		err error) {
		var of struct {
			Items         []struct{ Name string }
			NextPageToken string
		}
		err = json.Unmarshal(page, &of)
		for _, item := range of.Items {
			names = append(names, item.Name)
		}
		return names, of.NextPageToken, err
	})
}

// Delete implements publish.Bucket.
func (g *google) Delete(ctx context.Context, key string) error {
	_, _, err := g.do(ctx, &request{op: "DELETE", key: key, method: http.MethodDelete, limit: maxListBytes,
		url: g.object(key), ok: []int{http.StatusOK, http.StatusNoContent, http.StatusNotFound}})
	return err
}
