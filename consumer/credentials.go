package consumer

import (
	"crypto/tls"
	"errors"
	"time"
)

// watchExpiry returns a copy of conf that keeps the metric of the certificates' ends.
func watchExpiry(conf *tls.Config, m *metrics) *tls.Config {
	if conf == nil {
		return nil
	}
	conf = conf.Clone()
	verify, certificate := conf.VerifyConnection, conf.GetClientCertificate
	conf.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) > 0 {
			m.certExpiry.WithLabelValues("broker").Set(float64(state.PeerCertificates[0].NotAfter.Unix()))
		}
		if verify != nil {
			return verify(state)
		}
		return nil
	}
	if certificate != nil {
		conf.GetClientCertificate = func(req *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := certificate(req)
			if err == nil && pair.Leaf != nil {
				m.certExpiry.WithLabelValues("client").Set(float64(pair.Leaf.NotAfter.Unix()))
			}
			return pair, err
		}
	}
	return conf
}

// accepted notes that a connection was let in: the others that the same request needs need not wait.
func (s *source) accepted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = nil
}

// mayDial returns the last refusal while it is too early to try again.
func (s *source) mayDial() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.refusal != nil {
		if now.Before(s.retry) {
			return s.refusal
		}
		s.retry = now.Add(s.refusedPause) // one at a time
	}
	s.tried = true
	return nil
}

// answered notes whether the brokers accept our credentials and names the error of a request.
func (s *source) answered(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.refusal = nil
	case s.refusal != nil && errors.Is(err, s.refusal): // no news
	case refused(err) && s.tried:
		s.refusal, s.tried, s.retry = err, false, time.Now().Add(s.refusedPause)
	}
	return err
}

// pause returns the wait after so many failures in a row of which err is the last.
func (s *source) pause(err error, tries int) time.Duration {
	if fatal(err) {
		return s.refusedPause
	}
	return wait(tries)
}
