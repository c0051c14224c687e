package objects_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/refitd/refitd/snapshot/internal/snapshottest"
	"github.com/refitd/refitd/snapshot/objects"
	"github.com/refitd/refitd/snapshot/objects/objectstest"
)

// issuer gives tokens of two clouds, "token-N". Status, if not 0, is what it answers.
type issuer struct {
	*httptest.Server
	given, status atomic.Int64
	life          atomic.Pointer[string] // members of the answer that say it
	asked         atomic.Pointer[string] // the form of the last request
}

// placeOf returns the place of a store whose endpoint is a parameter, so that it asks who asks.
func placeOf(server *objectstest.Server) string {
	place, _, _ := strings.Cut(server.URL("x"), "?")
	place += "?endpoint=" + server.Server.URL
	if server.Cloud == "azure" {
		place += "/account"
	}
	return place
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{}
	hour := `"expires_in": 3600`
	i.life.Store(&hour)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // what cannot be read is not what is waited for
		form := r.Form.Encode()
		i.asked.Store(&form)
		w.Header().Set("Content-Type", "application/json")
		if status := i.status.Load(); status != 0 {
			w.WriteHeader(int(status))
			_, _ = w.Write([]byte(`{"error": "away", "error_description": "canary-secret"}`))
			return
		}
		token, _ := json.Marshal("token-" + string(rune('0'+i.given.Add(1))))
		_, _ = w.Write([]byte(`{"token_type": "Bearer", "access_token": ` + string(token) + `, ` + *i.life.Load() + `}`))
	}))
	t.Cleanup(i.Close)
	return i
}

// TestTokens: a token is used until it is about to expire, or the store refuses it. One is asked for by what the
// environment names, which is read each time; while the issuer is away the last one is used. No error has a secret.
func TestTokens(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	snapshottest.Must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	snapshottest.Must(t, err)
	for cloud, set := range map[string]func(t *testing.T, at string){
		"gs": func(t *testing.T, at string) {
			file := filepath.Join(t.TempDir(), "key.json")
			account, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "me", "token_uri": at,
				"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
			snapshottest.Must(t, err, os.WriteFile(file, account, 0o600))
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
			t.Setenv("STORAGE_EMULATOR_HOST", "")
		},
		"azure": func(t *testing.T, at string) {
			t.Setenv("AZURE_STORAGE_KEY", "")
			t.Setenv("AZURE_AUTHORITY_HOST", at)
			t.Setenv("AZURE_TENANT_ID", "tenant")
			t.Setenv("AZURE_CLIENT_ID", "me")
			t.Setenv("AZURE_FEDERATED_TOKEN_FILE", projected(t, "assertion-1"))
		},
	} {
		t.Run(cloud, func(t *testing.T) {
			server, from := objectstest.For(t, cloud), newIssuer(t)
			set(t, from.URL)
			var good atomic.Pointer[string]
			server.Answer = func(w http.ResponseWriter, r *http.Request, _, _ string) bool {
				if want := good.Load(); want != nil && r.Header.Get("Authorization") != "Bearer "+*want {
					w.WriteHeader(http.StatusUnauthorized)
					return true
				}
				return false
			}
			place := placeOf(server)
			use := func(want string, tokens int64) {
				t.Helper()
				good.Store(&want)
				bucket := open(t, place)
				for range 3 {
					_, err := bucket.List(t.Context(), "")
					snapshottest.Must(t, err)
				}
				if n := from.given.Load(); n != tokens {
					t.Errorf("%d tokens were given, want %d", n, tokens)
				}
			}
			use("token-1", 1)
			for _, life := range []string{`"expires_in": 1`, `"expires_in": 0`, `"scope": "x"`} {
				from.life.Store(&life)
				from.given.Store(0)
				bucket := open(t, place)
				for range 2 { // each request has a token, of an issuer that does not say how long, too
					good.Store(nil)
					_, err := bucket.List(t.Context(), "")
					snapshottest.Must(t, err)
				}
				if from.given.Load() == 0 {
					t.Error("no token was asked for")
				}
			}
			hour := `"expires_in": 3600`
			from.life.Store(&hour)
			from.given.Store(0)
			bucket := open(t, place)
			revoked := "token-2" // the first one is refused
			good.Store(&revoked)
			_, err := bucket.List(t.Context(), "")
			snapshottest.Must(t, err)
			minute := `"expires_in": 60` // another one is asked for already
			from.life.Store(&minute)
			from.given.Store(0)
			good.Store(nil)
			bucket = open(t, place)
			_, err = bucket.List(t.Context(), "")
			snapshottest.Must(t, err)
			from.status.Store(500)
			_, err = bucket.List(t.Context(), "") // by the token it has
			snapshottest.Must(t, err)
			_, err = open(t, place).List(t.Context(), "")
			if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "500") {
				t.Errorf("an issuer that is away: %v", err)
			}
			from.status.Store(0)
			if cloud == "azure" {
				turn(t, os.Getenv("AZURE_FEDERATED_TOKEN_FILE"), "assertion-2")
				good.Store(nil)
				_, err = open(t, place).List(t.Context(), "")
				if snapshottest.Must(t, err); !strings.Contains(*from.asked.Load(), "client_assertion=assertion-2&") {
					t.Errorf("asked for with %s", *from.asked.Load())
				}
			}
			plain := strings.Replace(place, "127.0.0.1", "plain.example", 1)
			if _, err = open(t, plain).List(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "not https") {
				t.Errorf("a token for a store without TLS: %v", err)
			}
		})
	}
}

func open(t *testing.T, place string) objects.Bucket {
	t.Helper()
	bucket, err := objects.Open(place)
	snapshottest.Must(t, err)
	return bucket
}

// projected writes a token as Kubernetes projects it: a link into a folder that is another link.
func projected(t *testing.T, token string) string {
	t.Helper()
	dir := t.TempDir()
	snapshottest.Must(t, os.Symlink("..data/token", filepath.Join(dir, "token")))
	turn(t, filepath.Join(dir, "token"), token)
	return filepath.Join(dir, "token")
}

// turn replaces a projected token.
func turn(t *testing.T, path, token string) {
	t.Helper()
	dir := filepath.Dir(path)
	next, err := os.MkdirTemp(dir, "..")
	snapshottest.Must(t, err, os.WriteFile(filepath.Join(next, "token"), []byte(token+"\n"), 0o600),
		os.Symlink(filepath.Base(next), filepath.Join(dir, "..tmp")),
		os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
}

// TestMachineTokens: the machine's address is asked for a token if the URL says so, and not otherwise.
func TestMachineTokens(t *testing.T) {
	const life = `{"access_token": "of-machine", "token_type": "Bearer", "expires_in": 3600, "expires_on": "4000000000"}`
	var asked atomic.Int64
	machine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Metadata") == "" && r.Header.Get("Metadata-Flavor") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Metadata-Flavor", "Google")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(life))
	}))
	defer machine.Close()
	for _, cloud := range []string{"gs", "azure"} {
		server := objectstest.For(t, cloud)
		for name, value := range map[string]string{"STORAGE_EMULATOR_HOST": "", "AZURE_STORAGE_KEY": "", "HOME": t.TempDir(),
			"GOOGLE_APPLICATION_CREDENTIALS": "", "GCE_METADATA_HOST": strings.TrimPrefix(machine.URL, "http://"),
			"AZURE_POD_IDENTITY_AUTHORITY_HOST": machine.URL} {
			t.Setenv(name, value)
		}
		server.Answer = func(w http.ResponseWriter, r *http.Request, _, _ string) bool {
			if r.Header.Get("Authorization") != "Bearer of-machine" {
				w.WriteHeader(http.StatusForbidden)
				return true
			}
			return false
		}
		place := placeOf(server)
		before := asked.Load()
		_, err := open(t, place).List(t.Context(), "")
		if err == nil || !strings.Contains(err.Error(), "instance_metadata is off") || asked.Load() != before {
			t.Errorf("%s: %v, asked %d times", cloud, err, asked.Load()-before)
		}
		_, err = open(t, place+"&instance_metadata=true").List(t.Context(), "")
		if snapshottest.Must(t, err); asked.Load() == before {
			t.Errorf("%s: the machine was not asked", cloud)
		}
	}
}

// TestTokenFileIsMissing: a token that cannot be read is not an object that is not there: who asks must not take the
// store for a new one.
func TestTokenFileIsMissing(t *testing.T) {
	server := objectstest.For(t, "azure")
	for _, name := range []string{"AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET"} {
		t.Setenv(name, "")
	}
	t.Setenv("AZURE_CLIENT_ID", "id")
	t.Setenv("AZURE_TENANT_ID", "tenant")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", filepath.Join(t.TempDir(), "missing"))
	place := placeOf(server)
	t.Setenv("AZURE_STORAGE_KEY", "") // which URL sets
	bucket, err := objects.Open(place)
	snapshottest.Must(t, err)
	_, _, err = bucket.Get(t.Context(), "m/aliases/latest", "", 100)
	if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no token") {
		t.Errorf("%v", err)
	}
}
