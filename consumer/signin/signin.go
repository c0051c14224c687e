// Package signin says who a client is to Kafka brokers: a name with a password, a token, or keys of AWS. Readers of
// kafka-go and clients of franz-go take the same Credentials.
//
//	signin.go  Credentials and their mechanism
//	token.go   tokens from a file or by client credentials
//	aws.go     keys of AWS from the environment, a web identity or the machine
//
// It connects to no broker and keeps no connection. Tokens and keys are in no error and no log. Everything is safe for
// concurrent use.
package signin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The mechanisms, as brokers name them.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
	AWSMSKIAM   = "AWS_MSK_IAM"
)

// Credentials sign in to the brokers. The zero value signs in to none.
type Credentials struct {
	Mechanism string // one of the constants, empty for none
	Username  string // of PLAIN and SCRAM
	Password  string
	// Tokens is asked for a token for each sign-in of OAUTHBEARER.
	Tokens     Tokens
	Extensions map[string]string // sent with each token; nil for none
	// Keys is asked for keys for each sign-in of AWS_MSK_IAM.
	Keys Keys
}

// Tokens returns a token that is valid now. It may block until ctx is done. The error is an *Unavailable.
type Tokens func(ctx context.Context) (string, error)

// Unavailable says why there is nothing to sign in with: it may pass.
type Unavailable struct {
	What string // token or keys
	Err  error
}

// Error has neither token nor keys.
func (e *Unavailable) Error() string { return fmt.Sprintf("no %s to sign in with: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *Unavailable) Unwrap() error { return e.Err }

// None reports whether there are no credentials.
func (c *Credentials) None() bool { return c.Mechanism == "" }

// SASL returns the mechanism with the credentials, nil without any. The error names what is missing.
func (c *Credentials) SASL() (sasl.Mechanism, error) {
	switch c.Mechanism {
	case "":
		return nil, nil
	case Plain, ScramSHA256, ScramSHA512:
		if c.Username == "" || c.Password == "" {
			return nil, fmt.Errorf("signin: Username or Password is empty, want both for mechanism %q", c.Mechanism)
		}
	case OAuthBearer:
		if c.Tokens == nil {
			return nil, fmt.Errorf("signin: Tokens is nil, want a source of tokens for mechanism %q", c.Mechanism)
		}
	case AWSMSKIAM:
		if c.Keys == nil {
			return nil, fmt.Errorf("signin: Keys is nil, want a source of keys for mechanism %q", c.Mechanism)
		}
	}
	switch c.Mechanism {
	case Plain:
		return plain.Auth{User: c.Username, Pass: c.Password}.AsMechanism(), nil
	case ScramSHA256:
		return scram.Auth{User: c.Username, Pass: c.Password}.AsSha256Mechanism(), nil
	case ScramSHA512:
		return scram.Auth{User: c.Username, Pass: c.Password}.AsSha512Mechanism(), nil
	case OAuthBearer:
		return worded{oauth.Oauth(c.bearer)}, nil
	case AWSMSKIAM:
		return worded{aws.ManagedStreamingIAM(c.Keys)}, nil
	}
	return nil, fmt.Errorf("signin: Mechanism is %q, want %s, %s, %s, %s or %s", c.Mechanism, Plain, ScramSHA256,
		ScramSHA512, OAuthBearer, AWSMSKIAM)
}

func (c *Credentials) bearer(ctx context.Context) (oauth.Auth, error) {
	token, err := c.Tokens(ctx)
	return oauth.Auth{Token: token, Extensions: c.Extensions}, err
}

// worded names a refusal: brokers say it inside the exchange, and franz-go calls that unexpected data.
type worded struct{ sasl.Mechanism }

func (m worded) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := m.Mechanism.Authenticate(ctx, host)
	return wordedSession{session}, first, err
}

type wordedSession struct{ sasl.Session }

// maxRefusal bounds what of a broker's words is passed on, in bytes.
const maxRefusal = 200

func (s wordedSession) Challenge(answer []byte) (bool, []byte, error) {
	done, next, err := s.Session.Challenge(answer)
	if err != nil {
		err = fmt.Errorf("%w: %q", kerr.SaslAuthenticationFailed, answer[:min(len(answer), maxRefusal)])
	}
	return done, next, err
}
