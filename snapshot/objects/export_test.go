package objects

import (
	"context"
	"net/http"
	"time"
)

// MakeContainer makes a container of Azure.
func MakeContainer(ctx context.Context, place string) error {
	bucket, err := Open(place)
	if err != nil {
		return err
	}
	a := bucket.(*azure)
	_, _, err = a.do(ctx, &request{op: "PUT", method: http.MethodPut, url: a.container + "?restype=container",
		limit: maxListBytes, ok: []int{http.StatusCreated}})
	return err
}

// SetPatience sets how long a request may take, and returns what it was.
func SetPatience(d time.Duration) time.Duration {
	before := patience
	patience = d
	return before
}
