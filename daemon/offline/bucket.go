package offline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/refitd/refitd/daemon/report"
	"github.com/refitd/refitd/snapshot/objects"
	"github.com/refitd/refitd/snapshot/publish"
)

// checkout makes a working copy of a bucket in the user's cache, and has Store name that.
func (v *Versions) checkout() error {
	if v.Model == "" {
		return &report.ExitError{Code: report.ExitUsage, Key: "--model",
			Err: errors.New("offline: --model is missing: name the model in the bucket")}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return &report.ExitError{Code: report.ExitState, Key: "--store",
			Err: fmt.Errorf("offline: no directory for copies of a bucket: %w", err)}
	}
	sum := sha256.Sum256([]byte(v.Store))
	v.Objects, v.Store = v.Store, filepath.Join(cache, "refitd", "objects", hex.EncodeToString(sum[:8]))
	store := publish.NewStore(v.Store)
	if err := v.Attach(store); err != nil {
		return err
	}
	if err := store.Pull(context.Background(), v.Model); err != nil {
		return StoreError(err, v.Objects)
	}
	return nil
}

// Attach has a store publish to the bucket that it is the working copy of, if it is one.
func (v *Versions) Attach(store *publish.Store) error {
	if v.Objects == "" {
		return nil
	}
	bucket, err := objects.Open(v.Objects)
	if err != nil {
		return &report.ExitError{Code: report.ExitUsage, Key: "--store", Err: err}
	}
	store.Bucket = bucket
	return nil
}
