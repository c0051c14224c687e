package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/segmentio/kafka-go"

	"github.com/refitd/refitd/consumer/signin"
)

// explain turns an error of the broker or the network into what an operator can act on.
func (s *source) explain(err error) string {
	op, _ := errors.AsType[*net.OpError](err)
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "kafka.(*Client)."); ok {
		_, text, _ = strings.Cut(rest, ": ")
	}
	_, none := errors.AsType[*signin.Unavailable](err)
	switch {
	case none:
		return text
	case refused(err) && s.opts.SASL.Username == "":
		return fmt.Sprintf("SASL authentication failed with %s: the broker refused what it was sent (%s)",
			s.opts.SASL.Mechanism, text)
	case refused(err):
		return fmt.Sprintf(
			"SASL authentication failed for user %q with %s: the broker refused user name or password (%s)",
			s.opts.SASL.Username, s.opts.SASL.Mechanism, text)
	case errors.Is(err, kafka.UnsupportedSASLMechanism):
		return fmt.Sprintf("the broker does not offer the SASL mechanism %s (%s)", s.opts.SASL.Mechanism, text)
	case errors.Is(err, kafka.TopicAuthorizationFailed):
		return "not allowed to read: user needs the ACL operations Read and Describe on the topic (" + text + ")"
	case errors.Is(err, kafka.GroupAuthorizationFailed):
		return fmt.Sprintf("not allowed to commit: user needs the ACL operation Read on the group %q (%s)",
			s.opts.GroupID, text)
	case errors.Is(err, kafka.ClusterAuthorizationFailed):
		return "not allowed to use the cluster: user needs the ACL operation Describe on the cluster (" + text + ")"
	case errors.Is(err, kafka.InvalidGroupId):
		return s.opts.advise(fmt.Sprintf("the broker does not take %q as a group id (%s)", s.opts.GroupID, text),
			CauseGroupID)
	case errors.Is(err, kafka.UnsupportedVersion):
		return "the broker does not speak the requests of this build, which are those of Kafka 0.11 and later (" + text + ")"
	case errors.Is(err, kafka.UnknownTopicOrPartition):
		return "the topic or partition does not exist, or was deleted (" + text + ")"
	case strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ") || strings.Contains(text, "TLS"):
		return fmt.Sprintf("TLS with %s failed: %s", strings.Join(s.opts.Brokers, ", "), text)
	case op != nil && op.Op == "dial":
		return fmt.Sprintf("cannot reach a broker at %s: %s", strings.Join(s.opts.Brokers, ", "), text)
	case errors.Is(err, context.DeadlineExceeded) || op != nil && op.Timeout():
		return fmt.Sprintf("cannot reach a broker at %s: no answer (%s)%s", strings.Join(s.opts.Brokers, ", "), text,
			s.hint())
	case strings.Contains(text, "EOF"):
		return fmt.Sprintf("the broker closed the connection (%s)%s", text, s.hint())
	}
	return text
}

// hint names what makes brokers silent that expect something else.
func (s *source) hint() string {
	switch {
	case s.opts.TLS != nil:
		return "; does it speak TLS on this port?"
	case s.opts.SASL.None():
		return "; does it expect TLS or SASL?"
	}
	return "; does it expect TLS?"
}

// refused reports whether the credentials are wrong; trying fast again could lock the account.
func refused(err error) bool {
	return errors.Is(err, kafka.SASLAuthenticationFailed) || strings.Contains(err.Error(), "SASL Authentication Failed")
}

// fatal reports whether err lasts until an operator changes something, here or at the broker. Every other error, also
// one that this build does not know, may pass and is tried again soon.
func fatal(err error) bool {
	broker, ok := errors.AsType[kafka.Error](err)
	if !ok {
		return refused(err)
	}
	switch broker {
	case kafka.TopicAuthorizationFailed,
		kafka.GroupAuthorizationFailed,
		kafka.ClusterAuthorizationFailed,
		kafka.SASLAuthenticationFailed,
		kafka.UnsupportedSASLMechanism,
		kafka.IllegalSASLState,
		kafka.UnsupportedVersion,
		kafka.InvalidGroupId,
		kafka.InvalidTopic:
		return true
	}
	return false
}
