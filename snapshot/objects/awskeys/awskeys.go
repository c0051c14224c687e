// Package awskeys finds the keys to sign requests to AWS with, for object stores and for brokers. It reads the
// environment: AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else the web identity of Kubernetes
// (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), else the address that ECS or EKS give (AWS_CONTAINER_CREDENTIALS_…).
// The address of the machine is asked only where the caller says so: every process on it can.
package awskeys

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// ErrNone means that there are no keys where they are looked for.
var ErrNone = errors.New("neither AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, nor AWS_WEB_IDENTITY_TOKEN_FILE with " +
	"AWS_ROLE_ARN, nor AWS_CONTAINER_CREDENTIALS_FULL_URI is set, and instance_metadata is off")

// timeout bounds how long an issuer of keys may take.
const timeout = 5 * time.Second

// Chain returns keys that are fetched when they are first needed, and again before they expire. It is safe for
// concurrent use.
func Chain(metadata bool) *credentials.Credentials {
	iam := &credentials.IAM{Client: &http.Client{Timeout: timeout, CheckRedirect: stay}}
	return credentials.New(&chain{metadata: metadata, iam: iam, Provider: iam})
}

// stay follows no redirection: the token of a web identity is for one address.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// chain decides at each retrieval which provider has the keys. Its caller locks.
type chain struct {
	credentials.Provider // that had them last
	iam                  *credentials.IAM
	metadata             bool
}

// RetrieveWithCredContext returns keys, or why it has none.
func (c *chain) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	switch {
	case os.Getenv("AWS_ACCESS_KEY_ID") != "" && os.Getenv("AWS_SECRET_ACCESS_KEY") != "":
		c.Provider = &credentials.EnvAWS{}
	case c.metadata || os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" ||
		os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" ||
		os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		c.Provider = c.iam
	default:
		return credentials.Value{}, ErrNone
	}
	return c.Provider.RetrieveWithCredContext(cc)
}

// Retrieve does as RetrieveWithCredContext.
func (c *chain) Retrieve() (credentials.Value, error) { return c.RetrieveWithCredContext(nil) }
