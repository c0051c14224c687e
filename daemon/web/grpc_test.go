package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/refitd/refitd/daemon/web/inference"
)

// grpcBench is a surface over the network, with a client of gRPC.
func grpcBench(t *testing.T, change ...func(*Options)) (*bench, inference.GRPCInferenceServiceClient, string) {
	b := newBench(t, change...)
	addr, _ := b.listen(t)
	within(t, patience, "all champions", b.allServed)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, inference.NewGRPCInferenceServiceClient(conn), addr
}

// grpcRows is rowsBody, with its elements in raw_input_contents or in the tensors.
func grpcRows(model string, raw bool) *inference.ModelInferRequest {
	ask := &inference.ModelInferRequest{ModelName: model, Id: "42"}
	add := func(name, datatype string, c *inference.InferTensorContents, binary []byte, shape ...int64) {
		in := &inference.ModelInferRequest_InferInputTensor{Name: name, Datatype: datatype, Shape: shape}
		if raw {
			ask.RawInputContents = append(ask.RawInputContents, binary)
		} else {
			in.Contents = c
		}
		ask.Inputs = append(ask.Inputs, in)
	}
	names := func(list ...string) (c *inference.InferTensorContents) {
		c = new(inference.InferTensorContents)
		for _, name := range list {
			c.BytesContents = append(c.BytesContents, []byte(name))
		}
		return c
	}
	add("user", "BYTES", names("u1", "u9", ""), packed("u1", "u9", ""), 3)
	add("item", "BYTES", names("i2", "i3", "i1"), packed("i2", "i3", "i1"), 3, 1)
	add("age", "FP32", &inference.InferTensorContents{Fp32Contents: []float32{31, 40, -2.5}}, singles(31, 40, -2.5), 3)
	add("tags", "BYTES", names("a", "", "b", "a", "", ""), packed("a", "", "b", "a", "", ""), 3, 2)
	return ask
}

// TestGRPCIsHTTP: every answer of gRPC is the one of HTTP, for a model of each task.
func TestGRPCIsHTTP(t *testing.T) {
	b, client, _ := grpcBench(t)
	ctx := t.Context()
	live, err1 := client.ServerLive(ctx, &inference.ServerLiveRequest{})
	ready, err2 := client.ServerReady(ctx, &inference.ServerReadyRequest{})
	of, err3 := client.ServerMetadata(ctx, &inference.ServerMetadataRequest{})
	index, err4 := client.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{})
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !live.Live || !ready.Ready || of.Name != "refitd" || !reflect.DeepEqual(of.Extensions, extensions) ||
		len(index.Models) != len(tasks) {
		t.Errorf("%v %v %v %v", live, ready, of, index)
	}
	for name := range tasks {
		var meta modelMetadata
		b.want(http.StatusOK, &meta, "GET", "/v2/models/"+name, nil)
		got, err := client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: name})
		if err != nil || len(got.Inputs) != len(meta.Inputs) || len(got.Outputs) != len(meta.Outputs) ||
			!reflect.DeepEqual(got.Versions, meta.Versions) {
			t.Fatalf("%s: %v, %v, want %+v", name, got, err, meta)
		}
		for i, in := range meta.Inputs {
			if g := got.Inputs[i]; g.Name != in.Name || g.Datatype != in.Datatype ||
				!reflect.DeepEqual(g.Shape, sizes(in.Shape)) {
				t.Errorf("%s: %v, want %+v", name, g, in)
			}
		}
		var want inferAnswer
		b.want(http.StatusOK, &want, "POST", "/v2/models/"+name+"/infer", rowsBody())
		for _, raw := range []bool{true, false} {
			got, err := client.ModelInfer(ctx, grpcRows(name, raw))
			if err != nil || got.Id != "42" || got.ModelName != name || got.ModelVersion != "1" ||
				len(got.Outputs) != len(want.Outputs) ||
				len(got.RawOutputContents) != len(want.Outputs) {
				t.Fatalf("%s: %v, %v", name, got, err)
			}
			for i, out := range want.Outputs {
				if g := got.Outputs[i]; g.Name != out.Name || g.Datatype != out.Datatype ||
					!reflect.DeepEqual(g.Shape, sizes(out.Shape)) {
					t.Errorf("%s: %v, want %+v", name, g, out)
				}
				if values := elementsOf(out.Datatype, got.RawOutputContents[i]); !reflect.DeepEqual(values, out.Data) {
					t.Errorf("%s: %s %v, want %v", name, out.Name, values, out.Data)
				}
			}
		}
	}
}

// elementsOf reads binary elements as JSON reads them.
func elementsOf(datatype string, b []byte) (list []any) {
	for len(b) > 0 {
		switch datatype {
		case "BYTES":
			n := binary.LittleEndian.Uint32(b)
			list, b = append(list, string(b[4:4+n])), b[4+n:]
		case "BOOL":
			list, b = append(list, b[0] == 1), b[1:]
		default:
			list, b = append(list, math.Float64frombits(binary.LittleEndian.Uint64(b))), b[8:]
		}
	}
	return list
}

// TestGRPCRefuses: requests that do not fit, or that take more memory than there is, get the status that clients
// expect, and what was held is given back.
func TestGRPCRefuses(t *testing.T) {
	b, client, addr := grpcBench(t, func(o *Options) { o.MaxInflightBytes = 1 << 20 })
	for text, c := range map[string]struct {
		code   codes.Code
		change func(*inference.ModelInferRequest)
	}{
		"there is no such model": {codes.NotFound, func(r *inference.ModelInferRequest) { r.ModelName = "none" }},
		"ratings has 1; its":     {codes.NotFound, func(r *inference.ModelInferRequest) { r.ModelVersion = "9" }},
		"a whole number": {codes.InvalidArgument, func(
			r *inference.ModelInferRequest) {
			r.ModelVersion = "champion"
		}},
		`the tensor "user" is missing`: {codes.InvalidArgument, func(r *inference.ModelInferRequest) {
			r.Inputs, r.RawInputContents = r.Inputs[1:], r.RawInputContents[1:]
		}},
		"3 elements for 4 inputs": {codes.InvalidArgument, func(
			r *inference.ModelInferRequest) {
			r.RawInputContents = r.RawInputContents[1:]
		}},
		"the datatype \"INT32\"": {codes.InvalidArgument, func(
			r *inference.ModelInferRequest) {
			r.Inputs[0].Datatype = "INT32"
		}},
		"has the shape": {codes.InvalidArgument, func(
			r *inference.ModelInferRequest) {
			r.Inputs[0].Shape = []int64{-3}
		}},
		"is not UTF-8": {codes.InvalidArgument, func(
			r *inference.ModelInferRequest) {
			r.RawInputContents[0] = packed("\xff", "", "")
		}},
		"raw_input_contents is there": {codes.InvalidArgument, func(
			r *inference.ModelInferRequest) {
			r.Inputs[0].Contents = &inference.InferTensorContents{}
		}},
		"takes more memory than": {codes.ResourceExhausted, func(
			r *inference.ModelInferRequest) {
			r.RawInputContents[0] = make([]byte, 300<<10)
		}},
		"than web.max_inflight_bytes, ": {codes.ResourceExhausted, func(r *inference.ModelInferRequest) {
			r.Inputs = make([]*inference.ModelInferRequest_InferInputTensor, 40_000)
		}},
		`the model has no tensor "no"`: {codes.InvalidArgument, func(r *inference.ModelInferRequest) {
			r.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "no"}}
		}},
	} {
		ask := grpcRows("ratings", true)
		c.change(ask)
		for i, in := range ask.Inputs {
			if in == nil {
				ask.Inputs[i] = new(inference.ModelInferRequest_InferInputTensor)
			}
		}
		_, err := client.ModelInfer(t.Context(), ask)
		if of := status.Convert(err); of.Code() != c.code || !strings.Contains(of.Message(), text) {
			t.Errorf("%v, want %v %q", err, c.code, text)
		}
	}
	within(t, patience, "all memory given back", func() bool { return b.budget.InUse() == 0 })
	// The same over HTTP/1 is no gRPC.
	res, err := newClient(
		t).Post("http://"+addr+grpcMethods+"ServerLive", "application/grpc", strings.NewReader("\x00\x00\x00\x00\x00"))
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusNotFound {
		t.Errorf("HTTP/1: %d", res.StatusCode)
	}
}

// TestMessageFields: no message has more fields than are counted, and damaged ones do not matter.
func TestMessageFields(t *testing.T) {
	b, err := proto.Marshal(grpcRows("ratings", false))
	if err != nil {
		t.Fatal(err)
	}
	frame := append(make([]byte, 5), b...)
	// name, id; 4 inputs of name, datatype, shape, contents; 3 + 3 + 6 names and a packed list of numbers
	if n := messageFields(frame); n < 2+4+4*4+12+1 || n > 100 {
		t.Errorf("%d fields", n)
	}
	for i := range frame {
		messageFields(frame[:i])
	}
	many := make([]byte, 5)
	for range 1000 {
		many = protowire.AppendBytes(protowire.AppendTag(many, 5, protowire.BytesType), nil)
	}
	if n := messageFields(many); n != 1000 {
		t.Errorf("%d fields of 1000 empty tensors", n)
	}
}

// TestTritonClientInPython: Triton's own client for Python, with its defaults, over HTTP and over gRPC.
func TestTritonClientInPython(t *testing.T) {
	asksInPython(t, "triton.py", "tritonclient[http,grpc]", "tritonclient.http, tritonclient.grpc")
}

// TestRequestsInPython: what a service in Python asks, with requests.
func TestRequestsInPython(t *testing.T) { asksInPython(t, "ask.py", "requests", "requests") }

// asksInPython runs a program of testdata, which imports modules of a package, against a server.
func asksInPython(t *testing.T, program, needs, modules string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "python3", "-c", "import "+modules).CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Skipf("not checked: python3 with %s is needed (%v): %s", needs, err, lines[len(lines)-1])
	}
	_, _, addr := grpcBench(t)
	out, err := exec.CommandContext(t.Context(), "python3", filepath.Join("testdata", program), addr).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// TestGRPCAuthentication: gRPC is behind the passwords and the TLS of the HTTP surface.
func TestGRPCAuthentication(t *testing.T) {
	a, dir := newAuthority(t), t.TempDir()
	a.files(dir)
	for name, c := range map[string]struct {
		tls  string
		with credentials.TransportCredentials
	}{
		"plain": {"", insecure.NewCredentials()},
		"TLS": {"tls_server_config: {cert_file: server.pem, key_file: server.key}\n", credentials.NewTLS(
			&tls.Config{RootCAs: a.pool(), ServerName: "127.0.0.1"})},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name+".yaml")
			if err := os.WriteFile(file, []byte(c.tls+"basic_auth_users: {ann: "+passwordHash+"}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			b := newBench(t, func(o *Options) { o.ConfigFile = file })
			addr, _ := b.listen(t)
			within(t, patience, "all champions", b.allServed)
			conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(c.with))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			client := inference.NewGRPCInferenceServiceClient(conn)
			if _, err := client.ModelInfer(t.Context(), grpcRows("ratings", true)); status.Code(
				err) != codes.Unauthenticated {
				t.Errorf("without a password: %v", err)
			}
			r, err := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.SetBasicAuth("ann", password)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", r.Header.Get("Authorization"))
			if _, err := client.ModelInfer(ctx, grpcRows("ratings", true)); err != nil {
				t.Errorf("with the password: %v", err)
			}
		})
	}
}

// TestCallThatPanics: a panic in a handler is an error of its request.
func TestCallThatPanics(t *testing.T) {
	var log bytes.Buffer
	s := &Server{Options: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	_, err := s.answerCall(t.Context(), nil, nil, func(context.Context, any) (any, error) { panic("index out of range") })
	if status.Code(err) != codes.Internal || !strings.Contains(log.String(), "index out of range") {
		t.Errorf("%v, log %q", err, &log)
	}
}

// TestWhoMovesAnAlias: a password that nobody has checked names nobody.
func TestWhoMovesAnAlias(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	for text, want := range map[string]string{"": "http from 192.0.2.1",
		"basic_auth_users: {alice: x}\n": "http user alice"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.SetBasicAuth("alice", "secret")
		s := &Server{Options: Options{ConfigFile: file}}
		if got := s.whoOf(r); got != want {
			t.Errorf("%q with %q, want %q", got, text, want)
		}
	}
	r := httptest.NewRequest(http.MethodPut, "/", nil)
	r.SetBasicAuth("alice", "secret")
	if got := new(Server).whoOf(r); got != "http from 192.0.2.1" {
		t.Errorf("%q without a file", got)
	}
}
