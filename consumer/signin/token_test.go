package signin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestIssuerRedirects: a secret is not sent to where an issuer points.
func TestIssuerRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was asked", r.Method, r.URL)
	}))
	defer elsewhere.Close()
	issuer := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer issuer.Close()
	tokens := Client{TokenURL: issuer.URL, ID: "me", Secret: func() (string, error) { return "canary", nil }}.Tokens()
	if _, err := tokens(t.Context()); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("error %v", err)
	}
}
