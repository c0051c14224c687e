package cluster

import (
	"strings"

	"github.com/refitd/refitd/consumer/signin"
	"github.com/refitd/refitd/daemon/config"
)

// Credentials are those of clients of the brokers. Files are read when a connection signs in.
func Credentials(s *config.SASL) signin.Credentials {
	if s.Mechanism == "" || s.Mechanism == "none" {
		return signin.Credentials{}
	}
	c := signin.Credentials{
		Mechanism: strings.ToUpper(s.Mechanism),
		Username:  s.Username,
		Password:  s.Password.Reveal(),
	}
	if len(s.Extensions) > 0 {
		c.Extensions = make(map[string]string, len(s.Extensions))
	}
	for _, text := range s.Extensions {
		name, value, _ := strings.Cut(text, "=")
		c.Extensions[name] = value
	}
	switch {
	case s.Mechanism == config.AWSMSKIAM:
		c.Keys = signin.AWSKeys(s.InstanceMetadata)
	case s.TokenFile != "":
		c.Tokens = signin.TokenFile(s.TokenFile)
	case s.TokenURL != "":
		c.Tokens = signin.Client{TokenURL: s.TokenURL, ID: s.ClientID, Scopes: s.Scopes, Secret: s.ClientSecret}.Tokens()
	}
	return c
}
