package signin

import (
	"context"

	"github.com/twmb/franz-go/pkg/sasl/aws"

	"github.com/refitd/refitd/snapshot/objects/awskeys"
)

// Keys returns keys of AWS that are valid now. The error is an *Unavailable.
type Keys func(ctx context.Context) (aws.Auth, error)

// AWSKeys returns keys from the environment, or by the web identity that Kubernetes gives. metadata allows those of the
// machine, too, which every process on it can have. Brokers of Amazon name the region; others take that of AWS_REGION.
func AWSKeys(metadata bool) Keys {
	chain := awskeys.Chain(metadata)
	return func(context.Context) (aws.Auth, error) {
		found, err := chain.GetWithContext(nil)
		if err == nil && found.AccessKeyID == "" {
			err = awskeys.ErrNone
		}
		if err != nil {
			return aws.Auth{}, &Unavailable{"keys of AWS", err}
		}
		return aws.Auth{
			AccessKey: found.AccessKeyID, SecretKey: found.SecretAccessKey, SessionToken: found.SessionToken,
			UserAgent: "refitd",
		}, nil
	}
}
