package objects

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// azure is a container of Azure Blob Storage. A tag is an ETag without its quotes.
//
// Source: https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api. Microsoft's client would link
// 7.6 MB, among them Apache Arrow and one that opens browsers, for these four requests.
type azure struct {
	rest
	container string // its URL
	prefix    string // empty, or with a slash at its end
}

const azureVersion = "2021-12-02"

var (
	accountForm   = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	containerForm = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`)
)

func openAzure(at *location) (Bucket, error) {
	name, path, _ := strings.Cut(at.path, "/")
	if !accountForm.MatchString(at.bucket) || !containerForm.MatchString(name) {
		return nil, errors.New("it names no account with a container")
	}
	base := "https://" + at.bucket + ".blob.core.windows.net"
	if at.endpoint != nil {
		base = at.endpoint.Scheme + "://" + at.endpoint.Host + strings.TrimSuffix(at.endpoint.Path, "/")
	}
	a := &azure{rest: newRest(at.place), container: base + "/" + name, prefix: within(path)}
	t := &tokens{fetch: func(ctx context.Context) (*oauth2.Token, error) {
		return azureToken(ctx, at.flags["instance_metadata"])
	}}
	// A key or a signature is read for each request, so that it can be renewed in a process that sets it.
	a.authorize = func(r *http.Request) error {
		r.Header.Set("X-Ms-Version", azureVersion)
		r.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
		if key := os.Getenv("AZURE_STORAGE_KEY"); key != "" {
			return signAzure(r, at.bucket, key)
		}
		if signature := strings.TrimPrefix(os.Getenv("AZURE_STORAGE_SAS_TOKEN"), "?"); signature != "" {
			if err := refusePlain(r.URL); err != nil {
				return err
			}
			if r.URL.RawQuery != "" {
				signature = "&" + signature
			}
			r.URL.RawQuery += signature
			return nil
		}
		return t.authorize(r)
	}
	a.refused = t.refused
	return a, nil
}

// azureToken returns a token for an application: by the token of Kubernetes (AZURE_FEDERATED_TOKEN_FILE, read each
// time), by AZURE_CLIENT_SECRET, or of the machine's identity if metadata allows that.
func azureToken(ctx context.Context, metadata bool) (*oauth2.Token, error) {
	const storage = "https://storage.azure.com/"
	id, tenant := os.Getenv("AZURE_CLIENT_ID"), os.Getenv("AZURE_TENANT_ID")
	file, secret := os.Getenv("AZURE_FEDERATED_TOKEN_FILE"), os.Getenv("AZURE_CLIENT_SECRET")
	if id != "" && tenant != "" && (file != "" || secret != "") {
		host := strings.TrimSuffix(cmp.Or(os.Getenv("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com"), "/")
		config := clientcredentials.Config{ClientID: id, ClientSecret: secret, AuthStyle: oauth2.AuthStyleInParams,
			TokenURL: host + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token", Scopes: []string{storage + ".default"}}
		if file != "" {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			config.ClientSecret = ""
			config.EndpointParams = url.Values{"client_assertion": {strings.TrimSpace(string(b))},
				"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}}
		}
		return config.Token(ctx)
	}
	if !metadata {
		return nil, errors.New("neither AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN nor AZURE_CLIENT_ID with " +
			"AZURE_TENANT_ID and AZURE_FEDERATED_TOKEN_FILE or AZURE_CLIENT_SECRET is set, and instance_metadata is off")
	}
	address := cmp.Or(os.Getenv("AZURE_POD_IDENTITY_AUTHORITY_HOST"), "http://169.254.169.254")
	query := url.Values{"api-version": {"2018-02-01"}, "resource": {storage}}
	if id != "" {
		query.Set("client_id", id)
	}
	r := rest{client: ctx.Value(oauth2.HTTPClient).(*http.Client), authorize: func(*http.Request) error { return nil }}
	_, body, err := r.do(ctx, &request{op: "GET", key: "token of this machine", method: http.MethodGet, limit: 1 << 20,
		url:    strings.TrimSuffix(address, "/") + "/metadata/identity/oauth2/token?" + query.Encode(),
		header: map[string]string{"Metadata": "true"}, ok: []int{http.StatusOK}})
	if err != nil {
		return nil, err
	}
	var token struct {
		AccessToken string `json:"access_token"`
		ExpiresOn   string `json:"expires_on"` // seconds since 1970
	}
	err = json.Unmarshal(body, &token)
	expires, parseErr := strconv.ParseInt(token.ExpiresOn, 10, 64)
	if err != nil || parseErr != nil || token.AccessToken == "" {
		return nil, errors.New("this machine's address gives no token that can be read")
	}
	return &oauth2.Token{AccessToken: token.AccessToken, Expiry: time.Unix(expires, 0)}, nil
}

// signAzure signs a request with the key of an account (Shared Key).
func signAzure(r *http.Request, account, key string) error {
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		return errors.New("AZURE_STORAGE_KEY is not of base64")
	}
	length := ""
	if r.ContentLength > 0 {
		length = strconv.FormatInt(r.ContentLength, 10)
	}
	text := []string{r.Method, "", "", length, "", r.Header.Get("Content-Type"), "", "", r.Header.Get("If-Match"),
		r.Header.Get("If-None-Match"), "", ""}
	for _, name := range sorted(r.Header) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ms-") {
			text = append(text, lower+":"+r.Header.Get(name))
		}
	}
	text = append(text, "/"+account+r.URL.EscapedPath())
	query := r.URL.Query()
	for _, name := range sorted(query) {
		text = append(text, name+":"+query.Get(name))
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(strings.Join(text, "\n")))
	r.Header.Set("Authorization", "SharedKey "+account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

func sorted(values map[string][]string) (names []string) {
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (a *azure) blob(key string) string {
	return a.container + (&url.URL{Path: "/" + a.prefix + key}).EscapedPath()
}

// Get implements publish.Bucket.
func (a *azure) Get(ctx context.Context, key, unless string, limit int64) ([]byte, string, error) {
	q := &request{op: "GET", key: key, method: http.MethodGet, limit: limit, url: a.blob(key),
		ok: []int{http.StatusOK, http.StatusNotModified}}
	if unless != "" {
		q.header = map[string]string{"If-None-Match": `"` + unless + `"`}
	}
	answer, body, err := a.do(ctx, q)
	if err != nil {
		return nil, "", err
	}
	if unless != "" && answer.StatusCode == http.StatusNotModified {
		return nil, unless, nil
	}
	tag, err := a.tag(answer, q)
	return body, tag, err
}

func (a *azure) tag(answer *http.Response, q *request) (string, error) {
	tag := strings.Trim(answer.Header.Get("ETag"), `"`)
	if tag == "" {
		return "", fmt.Errorf("%s %s%s: %w", q.op, a.place, q.key, errNoTag)
	}
	return tag, nil
}

// PutAbsent implements publish.Bucket.
func (a *azure) PutAbsent(ctx context.Context, key string, content []byte) (string, error) {
	return a.put(ctx, key, content, "If-None-Match", "*")
}

// Replace implements publish.Bucket.
func (a *azure) Replace(ctx context.Context, key, tag string, content []byte) (string, error) {
	return a.put(ctx, key, content, "If-Match", `"`+tag+`"`)
}

func (a *azure) put(ctx context.Context, key string, content []byte, condition, tag string) (string, error) {
	q := &request{op: "PUT", key: key, method: http.MethodPut, limit: maxListBytes, url: a.blob(key), content: content,
		ok: []int{http.StatusCreated}, header: map[string]string{
			condition: tag, "X-Ms-Blob-Type": "BlockBlob", "Content-Type": "application/octet-stream"}}
	answer, _, err := a.do(ctx, q)
	if err != nil {
		return "", err
	}
	return a.tag(answer, q)
}

// List implements publish.Bucket.
func (a *azure) List(ctx context.Context, prefix string) (keys []string, err error) {
	query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {a.prefix + prefix}}
	return a.list(ctx, a.container, prefix, a.prefix, "marker", query, func(page []byte) (names []string, next string,
		err error) {
		var of struct {
			Blobs []struct {
				Name string
				Type string `xml:"Properties>ResourceType"`
			} `xml:"Blobs>Blob"`
			NextMarker string
		}
		err = xml.Unmarshal(page, &of)
		for _, blob := range of.Blobs {
			if blob.Type != "directory" { // of an account with a hierarchical namespace
				names = append(names, blob.Name)
			}
		}
		return names, of.NextMarker, err
	})
}

// Delete implements publish.Bucket.
func (a *azure) Delete(ctx context.Context, key string) error {
	_, _, err := a.do(ctx, &request{op: "DELETE", key: key, method: http.MethodDelete, limit: maxListBytes,
		url: a.blob(key), ok: []int{http.StatusAccepted, http.StatusNotFound},
		header: map[string]string{"X-Ms-Delete-Snapshots": "include"}})
	return err
}
