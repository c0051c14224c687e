package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/consumer/event/framing"
)

// answered is what registries say of a schema.
type answered struct {
	Schema     string      `json:"schema"`
	SchemaType string      `json:"schemaType"` // empty for Avro
	References []reference `json:"references"`
	Version    int         `json:"version"`
}

// reference is where a schema is that another one needs.
type reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// formats are the formats of Confluent's types, and of Apicurio's.
var formats = map[string]string{"": event.FormatAvro, "AVRO": event.FormatAvro, "PROTOBUF": event.FormatProtobuf,
	"JSON": event.FormatJSONSchema}

// maxReferences bounds the schemas that one needs, and how deep they need one another.
const (
	maxReferences = 100
	maxDepth      = 10
)

// fetch asks for a schema and for what it refers to.
func (c *Client) fetch(id framing.ID) (*event.Writer, error) {
	if id.Kind == framing.GlobalID || id.Kind == framing.ContentID {
		return c.apicurio(id)
	}
	var a answered
	path := "/schemas/ids/" + strconv.FormatUint(id.Number, 10)
	switch id.Kind {
	case framing.GUIDID:
		g := id.GUID
		path = fmt.Sprintf("/schemas/guids/%x-%x-%x-%x-%x", g[:4], g[4:6], g[6:8], g[8:10], g[10:])
	case framing.GlueID:
		return nil, fmt.Errorf("%s: AWS Glue is not asked: set input.schema_file, without kafka.schema_registry", id)
	}
	if err := c.get(path, &a); err != nil {
		return nil, err
	}
	return c.writer(id, &a)
}

// Newest asks for the newest schema of a subject, once.
func (c *Client) Newest(ctx context.Context, subject string) (w *event.Writer, version int, err error) {
	defer context.AfterFunc(ctx, c.cancel)()
	var a answered
	if err := c.get("/subjects/"+url.PathEscape(subject)+"/versions/latest", &a); err != nil {
		return nil, 0, err
	}
	w, err = c.writer(subject, &a)
	return w, a.Version, err
}

// maxMessage bounds what is repeated of the words of a registry, in bytes.
const maxMessage = 300

// Register has the registry keep a schema without references as the newest of a subject, unless it has it already, and
// returns its ID.
func (c *Client) Register(ctx context.Context, subject string, w *event.Writer) (id uint32, err error) {
	defer context.AfterFunc(ctx, c.cancel)()
	in := map[string]string{"schema": w.Text}
	for kind, format := range formats {
		if format == w.Format && kind != "" {
			in["schemaType"] = kind
		}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	var out struct {
		ID uint32 `json:"id"`
	}
	path := "/subjects/" + url.PathEscape(subject) + "/versions"
	answer, _, err := c.body(http.MethodPost, c.base+path, body)
	if err == nil && (json.Unmarshal(answer, &out) != nil || out.ID == 0) {
		err = fmt.Errorf("%s%s: an answer without an id", c.base, path)
	}
	return out.ID, err
}

// writer makes a schema of an answer, with what it refers to.
func (c *Client) writer(name any, a *answered) (*event.Writer, error) {
	w, known := &event.Writer{Text: a.Schema}, false
	if w.Format, known = formats[a.SchemaType]; !known {
		return nil, fmt.Errorf("%s: a schema of type %q, which is none of AVRO, PROTOBUF and JSON", name, a.SchemaType)
	}
	l := loader{client: c, seen: make(map[string]bool), left: c.options.MaxBytes - len(a.Schema)}
	if err := l.load(a.References, 0); err != nil {
		return nil, err
	}
	w.References = l.list
	return w, nil
}

// loader collects what a schema refers to, each behind what it needs.
type loader struct {
	client *Client
	seen   map[string]bool
	list   []event.Reference
	left   int // bytes
}

func (l *loader) load(refs []reference, depth int) error {
	for _, r := range refs {
		if l.seen[r.Name] {
			continue
		}
		if err := l.enter(r.Name, depth); err != nil {
			return err
		}
		var a answered
		path := "/subjects/" + url.PathEscape(r.Subject) + "/versions/" + strconv.Itoa(r.Version)
		if err := l.client.get(path, &a); err != nil {
			return err
		}
		if err := l.load(a.References, depth+1); err != nil {
			return err
		}
		if err := l.add(r.Name, a.Schema); err != nil {
			return err
		}
	}
	return nil
}

// enter notes that a reference is being loaded, unless they are too many.
func (l *loader) enter(name string, depth int) error {
	if l.seen[name] = true; len(l.seen) > maxReferences || depth > maxDepth {
		return fmt.Errorf("references: more than %d, or deeper than %d", maxReferences, maxDepth)
	}
	return nil
}

// add adds what was loaded, behind what it needs.
func (l *loader) add(name, text string) error {
	if l.left -= len(text); l.left < 0 {
		return fmt.Errorf("a schema with what it refers to of more than %d bytes", l.client.options.MaxBytes)
	}
	l.list = append(l.list, event.Reference{Name: name, Text: text})
	return nil
}

// The paths of Apicurio: what answers as Confluent's registry does is next to its API.
const (
	confluentPath = "/apis/ccompat/"
	apicurioPath  = "/apis/registry/v2"
)

// apicurio asks Apicurio's API for a schema by an ID that is Apicurio's alone.
func (c *Client) apicurio(id framing.ID) (*event.Writer, error) {
	base, path := c.base, fmt.Sprintf("/ids/globalIds/%d", id.Number)
	if id.Kind == framing.ContentID {
		path = fmt.Sprintf("/ids/contentIds/%d", id.Number)
	}
	if i := strings.Index(base, confluentPath); i >= 0 {
		base = base[:i] + apicurioPath
	}
	text, header, err := c.body(http.MethodGet, base+path, nil)
	if err != nil {
		return nil, err
	}
	w := &event.Writer{Text: string(text), Format: event.FormatAvro}
	switch kind := header.Get("X-Registry-ArtifactType"); {
	case kind == "PROTOBUF" || kind == "" && strings.Contains(w.Text, "syntax ="):
		w.Format = event.FormatProtobuf
	case kind == "JSON" || kind == "" && strings.Contains(w.Text, "$schema"):
		w.Format = event.FormatJSONSchema
	}
	if w.Format != event.FormatProtobuf && !json.Valid(text) { // as the page of a proxy
		return nil, c.useless(base+path, "an answer that is no schema")
	}
	l := loader{client: c, seen: make(map[string]bool), left: c.options.MaxBytes - len(text)}
	if err := l.apicurio(base, path, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	w.References = l.list
	return w, nil
}

// apicurio is load of what is at a path of Apicurio's API.
func (l *loader) apicurio(base, path string, depth int) error {
	var refs []struct {
		Name       string `json:"name"`
		GroupID    string `json:"groupId"`
		ArtifactID string `json:"artifactId"`
		Version    string `json:"version"`
	}
	list, _, err := l.client.body(http.MethodGet, base+path+"/references", nil)
	if failed, ok := errors.AsType[*statusError](err); ok && depth > 0 && strings.HasPrefix(failed.status, "404") {
		return nil // a build that does not say what a version refers to
	}
	if err == nil {
		err = json.Unmarshal(list, &refs)
	}
	if err != nil {
		return fmt.Errorf("references that cannot be read: %w", err)
	}
	for _, r := range refs {
		if l.seen[r.Name] {
			continue
		}
		if err := l.enter(r.Name, depth); err != nil {
			return err
		}
		group := r.GroupID
		if group == "" {
			group = "default"
		}
		at := "/groups/" + url.PathEscape(group) + "/artifacts/" + url.PathEscape(r.ArtifactID) + "/versions/" +
			url.PathEscape(r.Version)
		text, _, err := l.client.body(http.MethodGet, base+at, nil)
		if err != nil {
			return err
		}
		if err := l.apicurio(base, at, depth+1); err != nil {
			return err
		}
		if err := l.add(r.Name, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// get reads an answer in JSON that has a schema: one without would be kept as the text of its ID.
func (c *Client) get(path string, to *answered) error {
	body, _, err := c.body(http.MethodGet, c.base+path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, to); err != nil {
		return c.useless(c.base+path, "an answer that is no JSON of a registry")
	}
	if to.Schema == "" {
		return c.useless(c.base+path, "an answer without a schema")
	}
	return nil
}

// useless counts a request as failed whose answer, which came, is of no use.
func (c *Client) useless(address, why string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	return errors.New(address + ": " + why)
}

// body reads an answer to a request, whose body is nil for none. Its error names the URL, and nothing of the
// credentials.
func (c *Client) body(method, address string, sent []byte) ([]byte, http.Header, error) {
	body, header, err := c.try(method, address, sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, answered := errors.AsType[*statusError](err)
	c.away = err != nil && !answered
	if c.requests++; err != nil {
		c.failures++
		return nil, nil, fmt.Errorf("%s: %w", address, err)
	}
	return body, header, nil
}

// contentType is that of Confluent's API.
const contentType = "application/vnd.schemaregistry.v1+json"

// statusError is an answer that is none.
type statusError struct{ status string }

func (e *statusError) Error() string { return "status " + e.status }

func (c *Client) try(method, address string, sent []byte) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(c.ctx, method, address, bytes.NewReader(sent))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", contentType+", application/json, */*")
	if sent != nil {
		req.Header.Set("Content-Type", contentType)
	}
	switch {
	case c.options.BasicAuth != "":
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.options.BasicAuth)))
	case c.options.Token != "":
		req.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if failed, ok := err.(*url.Error); ok {
			err = failed.Err // the address is named once
		}
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 2*int64(c.options.MaxBytes)+1))
	switch {
	case err != nil:
		return nil, nil, err
	case res.StatusCode != http.StatusOK:
		return nil, nil, &statusError{res.Status + message(body)}
	case len(body) > 2*c.options.MaxBytes:
		return nil, nil, fmt.Errorf("an answer of more than %d bytes", 2*c.options.MaxBytes)
	}
	return body, res.Header, nil
}

// message returns what the body of an answer says of a failure, behind a colon; "" for nothing.
func message(body []byte) string {
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &said) != nil || said.Message == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(said.Message[:min(len(said.Message), maxMessage)], "")
}
