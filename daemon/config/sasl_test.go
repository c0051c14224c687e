package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTokensAndKeys: a mechanism takes its own keys and no others.
func TestTokensAndKeys(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("canary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	issuer := "token_url: https://issuer.example/token, client_id: refitd, client_secret_file: " + secret
	for _, c := range []struct{ keys, refused string }{
		{"mechanism: oauthbearer, token_file: token, extensions: [logicalCluster=lkc-1]", ""},
		{"mechanism: OAUTHBEARER, " + issuer + ", scopes: [kafka]", ""},
		{"mechanism: aws_msk_iam", ""},
		{"mechanism: AWS_MSK_IAM, instance_metadata: true", ""},
		{"mechanism: oauthbearer", "kafka.sasl.token_file"},
		{"mechanism: oauthbearer, token_file: token, " + issuer, "kafka.sasl.token_file"},
		{"mechanism: oauthbearer, client_id: refitd", "kafka.sasl.token_url"},
		{"mechanism: oauthbearer, token_url: https://issuer.example", "kafka.sasl.client_secret_file"},
		{"mechanism: oauthbearer, " + strings.Replace(issuer, "https", "http", 1), "kafka.sasl.token_url"},
		{"mechanism: oauthbearer, " + strings.Replace(issuer, "//", "//u:p@", 1), "kafka.sasl.token_url"},
		{"mechanism: oauthbearer, token_file: token, extensions: [auth=x]", "kafka.sasl.extensions"},
		{"mechanism: oauthbearer, token_file: token, username: u", "kafka.sasl.mechanism"},
		{"mechanism: plain, username: u, password: p, token_file: token", "kafka.sasl.mechanism"},
		{"mechanism: oauthbearer, token_file: token, instance_metadata: true", "kafka.sasl.mechanism"},
	} {
		text := strings.Replace(smallest, "group_id: refitd-ratings", "group_id: g, sasl: {"+c.keys+"}", 1)
		conf, err := Parse("r.yaml", []byte(text), os.LookupEnv)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want a complaint about %s", c.keys, err, c.refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.keys, err)
			continue
		}
		if m := conf.Kafka.SASL.Mechanism; m != OAuthBearer && m != AWSMSKIAM {
			t.Errorf("%s: mechanism %q", c.keys, m)
		}
	}
}
