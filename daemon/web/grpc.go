package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/refitd/refitd/daemon/durations"
	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/daemon/web/inference"
	"github.com/refitd/refitd/daemon/web/request"
	"github.com/refitd/refitd/daemon/web/tensor"
	"github.com/refitd/refitd/snapshot"
	"github.com/refitd/refitd/snapshot/format/pointer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// The Open Inference Protocol over gRPC, on the address of the HTTP surface: over TLS where that has it, else over
// HTTP/2 without it, which gRPC's clients begin with. Requests pass the same authentication, guard and budget. A
// request is one message, so it is read as a body is, and then given to grpc-go.

// grpcMethods begins the paths of the service.
const grpcMethods = "/inference.GRPCInferenceService/"

// inferenceService is the service. Its messages were taken from the budget before they were decoded.
type inferenceService struct {
	inference.UnimplementedGRPCInferenceServiceServer
	s *Server
}

// newGRPC returns what decodes and answers requests of gRPC. It starts no goroutine.
func newGRPC(s *Server) *grpc.Server {
	g := grpc.NewServer(grpc.MaxRecvMsgSize(request.MaxBody), grpc.UnaryInterceptor(s.answerCall))
	inference.RegisterGRPCInferenceServiceServer(g, &inferenceService{s: s})
	return g
}

// answerCall has a request handled. A panic is an error of that request, as net/http has it, and does not end the
// process.
func (s *Server) answerCall(ctx context.Context, ask any, _ *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.Log.Error("panic in a request", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			answer, err = nil, status.Error(codes.Internal, "the request failed; the log of refitd says more")
		}
	}()
	answer, err = handle(ctx, ask)
	return answer, s.grpcError(ctx, askedModel(ask), err)
}

// askedModel returns the model that a request names, "" for one that names none.
func askedModel(ask any) string {
	switch ask := ask.(type) {
	case interface{ GetModelName() string }:
		return ask.GetModelName()
	case interface{ GetName() string }:
		return ask.GetName()
	}
	return ""
}

// isGRPC reports whether a request is one of gRPC.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") &&
		strings.HasPrefix(r.URL.Path, grpcMethods)
}

// heldKey is the key of a *request.Inflight in the context of a gRPC request: grpc-go hands on nothing else of it.
type heldKey struct{}

// serveGRPC answers a request of gRPC.
func (s *Server) serveGRPC(w http.ResponseWriter, r *http.Request) {
	in := request.InflightOf(r)
	body, err := in.ReadAll()
	if err == nil {
		err = in.Grow(request.ObjectBytes * int64(messageFields(body)))
	}
	if err != nil {
		of := status.Convert(s.grpcError(r.Context(), "", err))
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", strconv.Itoa(int(of.Code())))
		w.Header().Set("Grpc-Message", of.Message())
		w.WriteHeader(http.StatusOK)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), heldKey{}, in))
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.grpc.ServeHTTP(flusher{w}, r)
}

// flusher is a writer as grpc-go wants it.
type flusher struct{ http.ResponseWriter }

// Flush sends what was written.
func (f flusher) Flush() { _ = http.NewResponseController(f.ResponseWriter).Flush() }

// messageFields returns how many fields a message in the framing of gRPC has at most, those of messages in it included.
// What takes the form of a message counts as one.
func messageFields(frame []byte) int {
	const prefix, depth = 5, 4 // a flag and a length; request, tensor, parameter, its value
	if len(frame) < prefix {
		return 0
	}
	return countFields(frame[prefix:], depth)
}

func countFields(b []byte, depth int) (fields int) {
	for len(b) > 0 {
		_, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fields
		}
		m := protowire.ConsumeFieldValue(1, kind, b[n:])
		if m < 0 {
			return fields
		}
		fields++
		if kind == protowire.BytesType && depth > 1 {
			value, _ := protowire.ConsumeBytes(b[n:])
			fields += countFields(value, depth-1)
		}
		b = b[n+m:]
	}
	return fields
}

// grpcError returns the error of a request for a model as gRPC says it. What went wrong on this machine goes to the
// log, not to the client.
func (s *Server) grpcError(ctx context.Context, model string, err error) error {
	if _, ok := status.FromError(err); ok { // nil is one
		return err
	}
	if rejected, ok := errors.AsType[*request.RejectedError](err); ok {
		return status.Error(codes.InvalidArgument, rejected.Error())
	}
	if bad, ok := errors.AsType[*request.Error](err); ok {
		code := codes.InvalidArgument
		switch bad.Status {
		case http.StatusNotFound:
			code = codes.NotFound
		case http.StatusServiceUnavailable:
			code = codes.Unavailable
		case http.StatusRequestEntityTooLarge:
			code = codes.ResourceExhausted
		case http.StatusRequestTimeout:
			code = codes.DeadlineExceeded
		}
		return status.Error(code, bad.Text)
	}
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return status.Error(codes.NotFound, s.noVersion(model))
	case errors.Is(err, snapshot.ErrInput):
		return status.Error(codes.InvalidArgument, report.WithoutPackages(err.Error()))
	case errors.Is(err, snapshot.ErrExpired):
		return status.Error(codes.FailedPrecondition, "the version has expired")
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	s.Log.Error("request failed", "path", grpcMethods, "error", err)
	return status.Error(codes.Internal, "the request failed; the log of refitd says more")
}

// named returns a version by the names of a request: empty is the champion.
func (g *inferenceService) named(model, version string) (*scorer, error) {
	cache := g.s.caches[model]
	if cache == nil {
		return nil, g.s.noModel()
	}
	switch version {
	case "":
		return cache.alias(pointer.Champion)
	case liveVersion:
		return cache.live()
	}
	v, err := parseVersion(version)
	if err != nil {
		return nil, err
	}
	return cache.version(v)
}

// ServerLive answers that the server runs.
func (g *inferenceService) ServerLive(context.Context,
	*inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

// ServerReady answers whether every model has a champion.
func (g *inferenceService) ServerReady(context.Context,
	*inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: g.s.allServed()}, nil
}

// ModelReady answers whether a version can infer.
func (g *inferenceService) ModelReady(_ context.Context,
	ask *inference.ModelReadyRequest) (*inference.ModelReadyResponse, error) {
	_, err := g.named(ask.Name, ask.Version)
	if _, bad := errors.AsType[*request.Error](err); bad {
		return nil, err
	}
	return &inference.ModelReadyResponse{Ready: err == nil}, nil
}

// ServerMetadata names the program.
func (g *inferenceService) ServerMetadata(context.Context,
	*inference.ServerMetadataRequest) (*inference.ServerMetadataResponse, error) {
	return &inference.ServerMetadataResponse{Name: "refitd", Version: g.s.Version, Extensions: extensions}, nil
}

// ModelMetadata describes the tensors of a version.
func (g *inferenceService) ModelMetadata(_ context.Context,
	ask *inference.ModelMetadataRequest) (*inference.ModelMetadataResponse, error) {
	v, err := g.named(ask.Name, ask.Version)
	if err != nil {
		return nil, err
	}
	cache := g.s.caches[ask.Name]
	versions, err := cache.Store.Versions(cache.Name)
	if err != nil {
		return nil, err
	}
	out := &inference.ModelMetadataResponse{Name: cache.Name, Platform: platform}
	for _, n := range versions {
		out.Versions = append(out.Versions, strconv.FormatInt(n, 10))
	}
	described := func(list []tensor.TensorMetadata) (out []*inference.ModelMetadataResponse_TensorMetadata) {
		for _, t := range list {
			out = append(
				out,
				&inference.ModelMetadataResponse_TensorMetadata{
					Name:     t.Name,
					Datatype: t.Datatype,
					Shape:    sizes(t.Shape),
				},
			)
		}
		return out
	}
	out.Inputs, out.Outputs = described(tensor.Inputs(v.model.Schema())), described(tensor.Outputs(v.model))
	return out, nil
}

func sizes(shape []int) (list []int64) {
	for _, n := range shape {
		list = append(list, int64(n))
	}
	return list
}

// RepositoryIndex answers with the models of the configuration.
func (g *inferenceService) RepositoryIndex(_ context.Context,
	ask *inference.RepositoryIndexRequest) (*inference.RepositoryIndexResponse, error) {
	out := new(inference.RepositoryIndexResponse)
	for _, m := range g.s.index(ask.Ready) {
		out.Models = append(
			out.Models,
			&inference.RepositoryIndexResponse_ModelIndex{
				Name:    m.Name,
				Version: m.Version,
				State:   m.State,
				Reason:  m.Reason,
			},
		)
	}
	return out, nil
}

// ModelInfer predicts a row for each element of the input tensors. The answer has its elements in raw_output_contents.
// Parameters are not used.
func (g *inferenceService) ModelInfer(ctx context.Context,
	ask *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	began := time.Now()
	v, err := g.named(ask.ModelName, ask.ModelVersion)
	if err != nil {
		return nil, err
	}
	inputs, err := tensor.FromMessage(ask)
	if err != nil {
		return nil, err
	}
	tensors := tensor.Outputs(v.model)
	if len(ask.Outputs) > 0 {
		names := new(tensor.InferRequest)
		for _, o := range ask.Outputs {
			names.Outputs = append(names.Outputs, tensor.RequestOutput{Name: o.Name})
		}
		if tensors, _, err = tensor.Choose(tensors, names, false); err != nil {
			return nil, err
		}
	}
	held, _ := ctx.Value(heldKey{}).(*request.Inflight)
	predictions, _, err := g.s.predicted(v, inputs, past{}, held)
	if err != nil {
		return nil, err
	}
	out := &inference.ModelInferResponse{ModelName: v.manifest.Model, ModelVersion: v.header, Id: ask.Id}
	for _, t := range tensors {
		shape := sizes(t.Shape)
		shape[0] = int64(len(predictions))
		out.Outputs = append(out.Outputs,
			&inference.ModelInferResponse_InferOutputTensor{Name: t.Name, Datatype: t.Datatype, Shape: shape})
		out.RawOutputContents = append(out.RawOutputContents,
			tensor.AppendElements(nil, tensor.Values(t, v.model.Schema(), predictions)))
	}
	durations.Observe(g.s.metrics.seconds.WithLabelValues(v.manifest.Model), time.Since(began),
		prometheus.Labels{"version": v.header})
	return out, nil
}
