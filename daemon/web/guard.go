package web

import (
	"fmt"
	"github.com/refitd/refitd/daemon/web/request"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// securityHeaders go with every answer: nothing may be loaded but what this surface serves, no text becomes markup or a
// program, and nobody may frame, sniff or keep an answer.
var securityHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src " +
		"'self'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	"X-Content-Type-Options": "nosniff",
	"X-Frame-Options":        "deny",
	"Referrer-Policy":        "no-referrer",
	"Cache-Control":          "no-store",
}

// guard is everything that happens to a request before its route: the headers of the answer, the host it is addressed
// to, the page it comes from, its path and its size.
func (s *Server) guard(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		t := request.TurnOf(r.Context())
		w := &statusWriter{ResponseWriter: out, turn: t}
		defer t.End()
		defer func() { s.metrics.requests.WithLabelValues(strconv.Itoa(w.code())).Inc() }()
		for name, value := range securityHeaders {
			w.Header().Set(name, value)
		}
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !s.isAllowedHost(r.Host) {
			request.Fail(w, http.StatusMisdirectedRequest,
				fmt.Sprintf("requests to the host %q are not answered: add it to web.allowed_hosts", hostOf(r.Host)))
			return
		}
		if err := crossOrigin.Check(r); err != nil {
			request.Fail(w, http.StatusForbidden, "requests from pages of another origin are refused")
			return
		}
		if p := r.URL.Path; p != "/" && strings.TrimSuffix(p, "/") != path.Clean(p) ||
			strings.ContainsAny(p, "\\\x00") {
			request.Fail(w, http.StatusBadRequest, "the path is not clean: no //, .., backslash or zero byte")
			return
		}
		if r.ContentLength == 0 {
			t.Begin()
			next.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			w.Header().Set("Connection", "close") // the body is not read
			request.Fail(w, http.StatusRequestEntityTooLarge, r.Method+" takes no body")
			return
		}
		in, err := s.budget.Admit(out, r, t)
		if err != nil {
			w.Header().Set("Connection", "close") // the body is not read
			s.failWith(w, r, err)
			return
		}
		defer in.Shrink(0)
		r.Body = in
		next.ServeHTTP(w, r)
	})
}

// isAllowedHost reports whether the Host header names this daemon. A page of a foreign name that was made to resolve to
// this machine (DNS rebinding) cannot send an address or localhost there.
func (s *Server) isAllowedHost(host string) bool {
	name := hostOf(host)
	if _, err := netip.ParseAddr(name); err == nil || strings.EqualFold(name, "localhost") {
		return true
	}
	return slices.ContainsFunc(s.AllowedHosts, func(a string) bool { return strings.EqualFold(a, name) })
}

// hostOf returns the host of a Host header without port and brackets.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// cutUnix returns the path of an address of the form unix:PATH.
func cutUnix(address string) (path string, ok bool) { return strings.CutPrefix(address, "unix:") }

// statusWriter remembers the status of an answer, and when the client took some of it.
type statusWriter struct {
	http.ResponseWriter
	turn   *request.Turn
	status int
}

// WriteHeader remembers the final status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.turn.End()
	w.ResponseWriter.WriteHeader(status)
}

// Write writes some of the answer.
func (w *statusWriter) Write(b []byte) (int, error) {
	w.turn.End()
	defer w.turn.Touch()
	return w.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController the writer below.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) code() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}
