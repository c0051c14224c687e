package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/config/files"
	"github.com/refitd/refitd/daemon/config/scalar"
)

// SASL signs in to the brokers.
type SASL struct {
	Mechanism    string `json:"mechanism"` // none, plain, scram-sha-256, scram-sha-512, oauthbearer or aws_msk_iam
	Username     string `json:"username"`
	Password     Secret `json:"password"`      // ${NAME} reads the environment
	PasswordFile string `json:"password_file"` // instead of Password; readable by its owner only
	// of oauthbearer: file with a token, read for each sign-in
	TokenFile string `json:"token_file"`
	// instead of TokenFile: URL of an issuer that gives tokens for client credentials (OAuth 2)
	TokenURL         string   `json:"token_url"`
	ClientID         string   `json:"client_id"`          // of the client credentials
	ClientSecretFile string   `json:"client_secret_file"` // readable by its owner only
	Scopes           []string `json:"scopes"`             // asked of the issuer
	Extensions       []string `json:"extensions"`         // of oauthbearer: NAME=VALUE, sent with each token
	// of aws_msk_iam: ask the address of this machine for keys if neither the environment nor a web identity has any
	InstanceMetadata bool `json:"instance_metadata"`
}

// The mechanisms that take neither name nor password.
const (
	OAuthBearer = "oauthbearer"
	AWSMSKIAM   = "aws_msk_iam"
)

// mechanisms are the values of kafka.sasl.mechanism.
var mechanisms = []string{"none", "plain", "scram-sha-256", "scram-sha-512", OAuthBearer, AWSMSKIAM}

// unsigned drops the signs that names of mechanisms are written with.
var unsigned = strings.NewReplacer("-", "", "_", "", " ", "")

// mechanismOf returns the name of a SASL mechanism in the spelling of this configuration, whatever case and signs it is
// written with: PLAIN, SCRAM-SHA-256, scram_sha_512, ScramSha512. Other text is returned as it is.
func mechanismOf(text string) string {
	plain := unsigned.Replace(strings.ToLower(text))
	for _, name := range mechanisms {
		if plain == unsigned.Replace(name) {
			return name
		}
	}
	return text
}

// ClientSecret reads the secret of the client credentials: it may be renewed.
func (s *SASL) ClientSecret() (string, error) { return files.ReadPrivate(s.ClientSecretFile) }

func (v *validator) sasl(k *Kafka, loopback bool) {
	s := &k.SASL
	s.Mechanism = mechanismOf(s.Mechanism)
	v.oneOf("kafka.sasl.mechanism", s.Mechanism, mechanisms...)
	v.onlyOf(s)
	if s.Mechanism == "none" {
		return
	}
	if !k.TLS.Enabled && !loopback {
		v.bad("kafka.tls.enabled", false, "true: a password is not sent to another machine in the clear")
	}
	switch s.Mechanism {
	case OAuthBearer:
		v.tokens(s)
	case AWSMSKIAM:
	default:
		v.password(s)
	}
}

// onlyOf refuses the keys that another mechanism has.
func (v *validator) onlyOf(s *SASL) {
	password := s.Username != "" || s.PasswordFile != "" || s.Password.Reveal() != ""
	token := s.TokenFile != "" || s.TokenURL != "" || s.ClientID != "" || s.ClientSecretFile != "" ||
		len(s.Scopes) > 0 || len(s.Extensions) > 0
	for _, c := range []struct {
		set  bool
		name string
		of   []string
	}{
		{password, "username and password", []string{"plain", "scram-sha-256", "scram-sha-512"}},
		{token, "token_file, token_url, client_id, client_secret_file, scopes and extensions", []string{OAuthBearer}},
		{s.InstanceMetadata, "instance_metadata", []string{AWSMSKIAM}},
	} {
		if c.set && !slices.Contains(c.of, s.Mechanism) {
			v.bad("kafka.sasl.mechanism", s.Mechanism, strings.Join(c.of, ", ")+", or leave "+c.name+" out")
		}
	}
}

func (v *validator) password(s *SASL) {
	if s.Username == "" {
		v.bad("kafka.sasl.username", "", "the name to sign in with")
	}
	switch {
	case s.PasswordFile != "" && s.Password.Reveal() != "":
		v.bad("kafka.sasl.password_file", s.PasswordFile, "either password or password_file, not both")
	case s.PasswordFile != "":
		s.Password = scalar.NewSecret(v.private("kafka.sasl.password_file", s.PasswordFile))
	case s.Password.Reveal() == "":
		v.bad("kafka.sasl.password", "", "password_file with a path, or ${NAME} for a variable of the environment")
	}
}

// extension is a name and a value that RFC 7628 allows; "auth" is the token's own.
var extension = regexp.MustCompile(`^[A-Za-z]+=[\x20-\x7e\t\r\n]+$`)

func (v *validator) tokens(s *SASL) {
	for _, text := range s.Extensions {
		if !extension.MatchString(text) || strings.HasPrefix(text, "auth=") {
			v.bad("kafka.sasl.extensions", text, "NAME=VALUE, a name of letters that is not auth, in ASCII")
		}
	}
	if s.TokenURL == "" {
		if s.ClientID != "" || s.ClientSecretFile != "" || len(s.Scopes) > 0 {
			v.bad("kafka.sasl.token_url", "", "the issuer's URL, or leave client_id, client_secret_file and scopes out")
		} else if s.TokenFile == "" {
			v.bad("kafka.sasl.token_file", "", "a file with a token, or token_url, client_id and client_secret_file")
		}
		return
	}
	if s.TokenFile != "" {
		v.bad("kafka.sasl.token_file", s.TokenFile, "either token_file or token_url, not both")
	}
	issuer, err := url.Parse(s.TokenURL)
	switch {
	case err != nil || issuer.Host == "" || issuer.User != nil || issuer.Scheme != "https" && issuer.Scheme != "http":
		v.bad("kafka.sasl.token_url", s.TokenURL, "an https URL without user and password")
	case issuer.Scheme == "http" && !isLoopback(net.JoinHostPort(issuer.Hostname(), "0")):
		v.bad("kafka.sasl.token_url", s.TokenURL, "https: a secret is not sent to another machine in the clear")
	}
	if s.ClientID == "" {
		v.bad("kafka.sasl.client_id", "", "the name that the issuer knows")
	}
	if s.ClientSecretFile == "" {
		v.bad("kafka.sasl.client_secret_file", "", "a file with the secret of client_id")
	} else {
		v.private("kafka.sasl.client_secret_file", s.ClientSecretFile)
	}
}
